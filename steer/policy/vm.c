/*
 * One VM: what it should be asked for, and whether a command is due
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "law.h"

/* In order of sending */
enum {
    RANK_SHORTEN,
    RANK_WITHDRAW,
    RANK_RENEW_SHORT,
    RANK_RENEW_LONG,
    RANK_LENGTHEN,
};

void policy_vm_init(PolicyVm *vm, const PolicyConfig *config, uint64_t id)
{
    *vm = (PolicyVm){
        .id = id,
        .asked_ms = POLICY_DELAY_NONE,
        .wanted_ms = POLICY_DELAY_NONE,
        .phase = POLICY_WHY_STATE,
        .why = POLICY_WHY_UNREACHABLE,
        .calm_delay_ms = config->calm_delay_ms,
    };
}

/* Commands and their ends */

static void vm_failed(const PolicyConfig *config, PolicyVm *vm, int64_t now_ns)
{
    vm->in_flight = false;
    vm->back_off_ms = vm->back_off_ms
                          ? MIN((uint64_t)vm->back_off_ms * 2, config->back_off_max_ms)
                          : config->back_off_min_ms;
    vm->retry_ns = now_ns + vm->back_off_ms * NS_PER_MS;
}

/* It may have arrived or not: go on as if it had, but ask again. */
static void vm_unsure(PolicyVm *vm)
{
    vm->sure = false;
    if (vm->flight_ms != POLICY_DELAY_NONE) {
        vm->asked_ms = vm->flight_ms;
        vm->asked_ns = vm->flight_ns;
        vm->lease_ms = vm->flight_lease_ms;
    }
}

static void vm_taken(const PolicyConfig *config, PolicyVm *vm, int64_t now_ns)
{
    bool is_short = vm->flight_ms < config->watch_delay_ms;

    if (!is_short) {
        vm->effect_ns = 0;
    } else if (!vm->sure || vm->asked_ms != vm->flight_ms) {
        law_vm_effect_start(vm, now_ns);
    }
    vm->asked_ms = vm->flight_ms;
    vm->asked_ns = vm->flight_ns;
    vm->lease_ms = vm->flight_lease_ms;
    vm->answered_ns = now_ns;
    vm->sure = true;
    vm->in_flight = false;
    vm->back_off_ms = 0;
    vm->retry_ns = 0;
    if (vm->phase == POLICY_WHY_TAKING_BACK && vm->flight_ms == POLICY_DELAY_NONE) {
        vm->withdrawn = true;
        vm->phase_ns = now_ns;
    }
}

static void vm_replied(const PolicyConfig *config, PolicyVm *vm, PolicyReply reply,
                       int64_t now_ns)
{
    vm->late = false;
    switch (reply) {
    case POLICY_REPLY_OK:
        vm_taken(config, vm, now_ns);
        break;
    case POLICY_REPLY_MIGRATING:
        vm->in_flight = false;
        vm->retry_ns = now_ns + config->back_off_min_ms * NS_PER_MS;
        break;
    case POLICY_REPLY_LOST:
        vm_unsure(vm);
        vm_failed(config, vm, now_ns);
        break;
    default:
        /* Refused: QEMU holds what it held. */
        vm_failed(config, vm, now_ns);
        break;
    }
}

static void vm_settle_flight(const PolicyConfig *config, PolicyVm *vm,
                             const PolicyVmSample *s, int64_t now_ns)
{
    if ((vm->in_flight || vm->late) && s->reply != POLICY_REPLY_NONE &&
        s->reply_serial == vm->serial) {
        if (vm->in_flight || s->reply == POLICY_REPLY_OK) {
            vm_replied(config, vm, s->reply, now_ns);
        } else {
            vm->late = false;
        }
    } else if (vm->in_flight && !s->connected) {
        vm_replied(config, vm, POLICY_REPLY_LOST, now_ns);
    } else if (vm->in_flight &&
               law_passed(now_ns, vm->flight_ns, config->command_timeout_ms)) {
        vm->late = true;
        vm_unsure(vm);
        vm_failed(config, vm, now_ns);
    }
    if (!s->connected) {
        /* Behind the next connection there may be another QEMU. */
        vm->sure = false;
        vm->late = false;
    }
}

static void vm_end_lease(const PolicyConfig *config, PolicyVm *vm, int64_t now_ns)
{
    if (vm->asked_ms != POLICY_DELAY_NONE &&
        law_passed(now_ns, vm->asked_ns, vm->lease_ms)) {
        vm->asked_ms = POLICY_DELAY_NONE;
        vm->effect_ns = 0;
        /* QEMU's lease began a little later, and so does it end. */
        vm->answered_ns = now_ns + config->command_timeout_ms * NS_PER_MS;
    }
}

/* Another writer */

static bool vm_has_other_writer(const PolicyVm *vm, const PolicyVmSample *s)
{
    /* Sent at the very instant of the answer, it may have been before it. */
    if (!vm->sure || vm->in_flight || s->query_sent_ns <= vm->answered_ns) {
        return false;
    }
    if (s->requested_ms != vm->asked_ms) {
        return true;
    }
    return vm->asked_ms != POLICY_DELAY_NONE && s->applied_ms != POLICY_DELAY_NONE &&
           s->applied_ms != vm->asked_ms;
}

static void vm_set_phase(PolicyVm *vm, PolicyWhy phase, int64_t now_ns)
{
    vm->phase = phase;
    vm->phase_ns = now_ns;
    vm->withdrawn = false;
    vm->effect_ns = 0;
}

static void vm_step_phase(const PolicyConfig *config, PolicyVm *vm,
                          const PolicyVmSample *s, int64_t now_ns)
{
    switch (vm->phase) {
    case POLICY_WHY_OTHER_WRITER:
        if (law_passed(now_ns, vm->phase_ns, config->other_writer_rest_ms)) {
            vm_set_phase(vm, POLICY_WHY_TAKING_BACK, now_ns);
        }
        break;
    case POLICY_WHY_TAKING_BACK:
        /* Set before the guest has seen the withdrawal, it sees no change. */
        if (vm->withdrawn &&
            ((s->query_sent_ns > vm->phase_ns && s->applied_ms != POLICY_DELAY_NONE) ||
             law_passed(now_ns, vm->phase_ns, config->take_back_wait_ms))) {
            vm_set_phase(vm, POLICY_WHY_STATE, now_ns);
        }
        break;
    default:
        if (vm_has_other_writer(vm, s)) {
            vm_set_phase(vm, POLICY_WHY_OTHER_WRITER, now_ns);
        }
        break;
    }
}

/* What is wanted */

/* Whether the VM is none of ours at all; STATE if it is */
static PolicyWhy vm_exempt(const PolicySample *sample, const PolicyVmSample *s)
{
    if (!s->connected || !s->query_sent_ns) {
        return POLICY_WHY_UNREACHABLE;
    }
    if (sample->stopping) {
        return POLICY_WHY_STOPPING;
    }
    if (!s->steer) {
        return POLICY_WHY_STEER_NO;
    }
    if (!s->offered) {
        return POLICY_WHY_NOT_OFFERED;
    }
    if (!s->negotiated) {
        return POLICY_WHY_NOT_NEGOTIATED;
    }
    return s->inhibited ? POLICY_WHY_INHIBITED : POLICY_WHY_STATE;
}

static uint32_t vm_state_delay_ms(const PolicyConfig *config, const PolicyVm *vm,
                                  const PolicyVmSample *s, const PolicyOutcome *o)
{
    uint32_t delay_ms = o->state == POLICY_CALM ? vm->calm_delay_ms : o->delay_ms;

    if (o->state == POLICY_CALM) {
        /* A reload may have changed the bounds. */
        delay_ms =
            MIN(MAX(delay_ms, config->calm_delay_min_ms), config->calm_delay_max_ms);
    }
    if (s->max_delay_ms) {
        delay_ms = MIN(delay_ms, s->max_delay_ms);
    }
    delay_ms = MAX(delay_ms, s->min_delay_ms);
    return MIN(delay_ms, POLICY_DELAY_MS_MAX);
}

/* What QEMU holds, as far as anybody knows */
static uint32_t vm_current_ms(const PolicyVm *vm, const PolicyVmSample *s)
{
    return vm->sure || vm->asked_ms != POLICY_DELAY_NONE ? vm->asked_ms : s->requested_ms;
}

/* Sets .wanted_ms and .why; false: the VM gets no command now */
static bool vm_want(const PolicyConfig *config, PolicyVm *vm, const PolicySample *sample,
                    const PolicyVmSample *s, int64_t now_ns, const PolicyOutcome *o)
{
    uint32_t current_ms = vm_current_ms(vm, s);

    vm->wanted_ms = POLICY_DELAY_NONE;
    vm->why = vm_exempt(sample, s);
    if (vm->why == POLICY_WHY_STOPPING || vm->why == POLICY_WHY_STEER_NO) {
        /* Ours is withdrawn; others' are none of our business. */
        if (vm->asked_ms == POLICY_DELAY_NONE) {
            return false;
        }
    } else if (vm->why != POLICY_WHY_STATE) {
        /* No renewal: what was asked ends with its lease. */
        return false;
    } else if (vm->phase == POLICY_WHY_OTHER_WRITER ||
               (vm->phase == POLICY_WHY_TAKING_BACK && vm->withdrawn)) {
        vm->why = vm->phase;
        return false;
    } else if (vm->phase == POLICY_WHY_TAKING_BACK) {
        vm->why = vm->phase;
    } else if (now_ns < s->pin_until_ns) {
        vm->why = POLICY_WHY_PINNED;
        vm->wanted_ms = s->pin_ms > POLICY_DELAY_MS_MAX ? POLICY_DELAY_NONE : s->pin_ms;
    } else {
        vm->wanted_ms = vm_state_delay_ms(config, vm, s, o);
        if (now_ns < vm->rest_until_ns && vm->wanted_ms < config->watch_delay_ms) {
            vm->why = POLICY_WHY_NO_EFFECT;
            vm->wanted_ms = config->watch_delay_ms;
        }
    }

    if (s->migration == POLICY_MIGRATION_YES &&
        law_effective_ms(config, vm->wanted_ms) < law_effective_ms(config, current_ms)) {
        if (vm->wanted_ms == POLICY_DELAY_NONE) {
            return false;
        }
        vm->why = POLICY_WHY_MIGRATING;
        vm->wanted_ms = current_ms;
        return current_ms != POLICY_DELAY_NONE;
    }
    return true;
}

/* Which command, if any */

static void vm_due(int64_t *due_ns, int64_t when_ns)
{
    *due_ns = MIN(*due_ns, when_ns);
}

/* When @thirds of the lease are over; the first is when to renew it */
static int64_t vm_lease_ns(const PolicyVm *vm, int thirds)
{
    return vm->asked_ns + vm->lease_ms * NS_PER_MS / 3 * thirds;
}

/* A change that can wait, so that it need not be a command of its own */
static bool vm_may_wait(const PolicyConfig *config, const PolicyHost *host,
                        const PolicyVm *vm, int64_t now_ns, int64_t *due_ns)
{
    uint32_t asked_ms = law_effective_ms(config, vm->asked_ms);
    uint32_t wanted_ms = law_effective_ms(config, vm->wanted_ms);

    if (vm->why != POLICY_WHY_STATE || !vm->sure) {
        return false;
    }
    if (wanted_ms > asked_ms && now_ns < vm->lengthen_ns) {
        vm_due(due_ns, vm->lengthen_ns);
        /* No renewal meanwhile, unless the jitter is as long as the lease. */
        return vm->asked_ms == POLICY_DELAY_NONE || now_ns < vm_lease_ns(vm, 2);
    }
    /* A calm delay that grows shorter comes with the next renewal. */
    return host->state == POLICY_CALM && wanted_ms < asked_ms &&
           asked_ms <= config->calm_delay_max_ms &&
           wanted_ms >= config->calm_delay_min_ms && now_ns < vm_lease_ns(vm, 1);
}

static bool vm_needs_command(const PolicyConfig *config, const PolicyHost *host,
                             PolicyVm *vm, int64_t now_ns, int64_t *due_ns)
{
    if (vm->phase == POLICY_WHY_TAKING_BACK) {
        return true;
    }
    if (vm->wanted_ms != vm->asked_ms || !vm->sure) {
        return !vm_may_wait(config, host, vm, now_ns, due_ns);
    }
    if (vm->asked_ms == POLICY_DELAY_NONE) {
        return false;
    }
    if (now_ns < vm_lease_ns(vm, 1)) {
        vm_due(due_ns, vm_lease_ns(vm, 1));
        return false;
    }
    return true;
}

static uint64_t vm_urgency(const PolicyVm *vm, const PolicyVmSample *s)
{
    uint64_t weight = s->weight ? s->weight : POLICY_WEIGHT_DEFAULT;

    return vm->backlog_bytes > UINT64_MAX / weight ? UINT64_MAX
                                                   : vm->backlog_bytes * weight;
}

static void vm_make_command(const PolicyConfig *config, const PolicyVm *vm,
                            const PolicyVmSample *s, PolicyCommand *c)
{
    uint32_t current_ms = vm_current_ms(vm, s);
    uint32_t wanted_eff = law_effective_ms(config, vm->wanted_ms);
    uint32_t current_eff = law_effective_ms(config, current_ms);

    c->id = vm->id;
    c->why = vm->why;
    c->delay_ms = vm->wanted_ms;
    c->action = POLICY_SET;
    c->lease_ms = vm->wanted_ms < config->long_lease_from_ms ? config->short_lease_ms
                                                             : config->long_lease_ms;
    c->renewal = vm->sure && vm->wanted_ms == vm->asked_ms;
    c->ask_migration =
        s->migration == POLICY_MIGRATION_UNKNOWN && wanted_eff < current_eff;
    if (vm->wanted_ms == POLICY_DELAY_NONE) {
        c->action = POLICY_WITHDRAW;
        c->lease_ms = 0;
        c->rank = RANK_WITHDRAW;
        c->key = vm->churn_permille;
    } else if (wanted_eff < current_eff) {
        c->rank = RANK_SHORTEN;
        c->key = vm_urgency(vm, s);
    } else if (c->renewal) {
        c->rank =
            c->lease_ms == config->short_lease_ms ? RANK_RENEW_SHORT : RANK_RENEW_LONG;
        c->key = INT64_MAX - vm->asked_ns;
    } else {
        c->rank = RANK_LENGTHEN;
        c->key = vm->churn_permille;
    }
}

bool law_vm_step(const PolicyConfig *config, const PolicyHost *host, PolicyVm *vm,
                 const PolicySample *sample, size_t index, int64_t now_ns,
                 const PolicyOutcome *outcome, PolicyCommand *command, int64_t *due_ns)
{
    const PolicyVmSample *s = &sample->vms[index];
    bool steered;

    vm_settle_flight(config, vm, s, now_ns);
    vm_end_lease(config, vm, now_ns);
    if (s->connected && s->query_sent_ns > vm->query_ns) {
        law_vm_account(config, vm, s, now_ns);
    }
    if (vm_exempt(sample, s) != POLICY_WHY_STATE) {
        vm_set_phase(vm, POLICY_WHY_STATE, now_ns);
    } else {
        vm_step_phase(config, vm, s, now_ns);
    }
    vm->backlog_bytes = law_backlog_bytes(s);

    steered = vm_want(config, vm, sample, s, now_ns, outcome);
    if (vm->in_flight) {
        vm_due(due_ns, vm->flight_ns + config->command_timeout_ms * NS_PER_MS);
        return false;
    }
    if (!steered) {
        return false;
    }
    if (now_ns < vm->retry_ns) {
        vm->why = POLICY_WHY_BACK_OFF;
        vm_due(due_ns, vm->retry_ns);
        return false;
    }
    if (!vm_needs_command(config, host, vm, now_ns, due_ns)) {
        return false;
    }
    command->vm = index;
    vm_make_command(config, vm, s, command);
    return true;
}

void law_vm_send(PolicyVm *vm, PolicyCommand *command, int64_t now_ns)
{
    vm->serial += vm->serial == UINT32_MAX ? 2 : 1;
    vm->in_flight = true;
    vm->late = false;
    vm->flight_ms = command->delay_ms;
    vm->flight_lease_ms = command->lease_ms;
    vm->flight_ns = now_ns;
    command->serial = vm->serial;
}

static uint64_t vm_mix(uint64_t x)
{
    /* splitmix64's finalizer: any two inputs look unrelated */
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/*
 * The most churned first: half of the time goes by lot, half by lack of churn.
 * A VM's own figures alone, so that no guest moves another one's command.
 */
void law_vm_jitter(const PolicyConfig *config, const PolicyHost *host, PolicyVm *vm,
                   int64_t now_ns)
{
    uint64_t lot = vm_mix(vm_mix(host->seed + host->downs) ^ vm->id) % 1000;
    uint64_t permille = (lot + 1000 - MIN(vm->churn_permille, 1000)) / 2;

    vm->lengthen_ns =
        now_ns + (int64_t)(config->jitter_ms * permille * (NS_PER_MS / 1000));
}
