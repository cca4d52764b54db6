/*
 * What a VM's counters say: churn, the calm delay that follows from it, and
 * whether a short delay has any effect
 *
 * Everything here moves with the answers of query-balloon-report-delay, since
 * host memory and discards tell something only if read together.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "law.h"

uint64_t law_backlog_bytes(const PolicyVmSample *s)
{
    if (s->host_bytes == POLICY_BYTES_UNKNOWN) {
        return 0;
    }
    return s->guest_used_bytes == POLICY_BYTES_UNKNOWN
               ? s->host_bytes
               : s->host_bytes - MIN(s->host_bytes, s->guest_used_bytes);
}

/* Below this, bytes are noise */
static uint64_t account_noise_bytes(const PolicyConfig *config, const PolicyVmSample *s)
{
    uint64_t noise = config->no_effect_mib * MIB;

    if (s->host_bytes && s->host_bytes != POLICY_BYTES_UNKNOWN) {
        noise = MIN(noise, law_scale(s->host_bytes, config->no_effect_permille, 1000));
    }
    return noise;
}

static void account_restart(PolicyVm *vm, const PolicyVmSample *s, int64_t now_ns)
{
    vm->drained = false;
    vm->drain_millidelays = 0;
    vm->pool_bytes[0] = vm->pool_bytes[1] = 0;
    vm->pool_ns = now_ns;
    vm->window_discarded_bytes = vm->window_churned_bytes = 0;
    vm->window_ns = now_ns;
    vm->effect_ns = 0;
    vm->query_ns = s->query_sent_ns;
    vm->discarded_bytes = s->discarded_bytes;
    vm->host_bytes = s->host_bytes;
    if (!vm->quiet_ns) {
        vm->quiet_ns = now_ns;
    }
}

/*
 * The first drain after a start returns memory that the guest never touched:
 * it counts as discarded, though nothing came back. It takes 16 delays; the
 * count of "no effect" is taken for it, too.
 */
static bool account_first_drain(const PolicyConfig *config, PolicyVm *vm,
                                const PolicyVmSample *s)
{
    uint32_t delay_ms = law_effective_ms(config, s->applied_ms);
    uint64_t elapsed_ms = (s->query_sent_ns - vm->query_ns) / NS_PER_MS;

    if (!vm->drained) {
        vm->drain_millidelays += elapsed_ms * 1000 / MAX(delay_ms, 1);
        vm->drained = vm->drain_millidelays >= config->no_effect_delays * UINT64_C(1000);
        return true;
    }
    return false;
}

/*
 * Discards go into a pool, growth takes them out again as churned. What has
 * been there for a window stays returned. Two generations of half a window
 * each: it is an estimate.
 */
static void account_pool_age(const PolicyConfig *config, PolicyVm *vm, int64_t now_ns)
{
    int64_t half_ns = config->churn_window_ms * NS_PER_MS / 2;

    if (now_ns - vm->pool_ns < half_ns) {
        return;
    }
    vm->pool_bytes[1] = now_ns - vm->pool_ns < 2 * half_ns ? vm->pool_bytes[0] : 0;
    vm->pool_bytes[0] = 0;
    vm->pool_ns = now_ns;
}

static uint64_t account_pool_take(PolicyVm *vm, uint64_t bytes)
{
    uint64_t taken = 0;

    for (int i = 1; i >= 0; i--) {
        uint64_t part = MIN(bytes - taken, vm->pool_bytes[i]);

        vm->pool_bytes[i] -= part;
        taken += part;
    }
    return taken;
}

static void account_churn(const PolicyConfig *config, PolicyVm *vm,
                          const PolicyVmSample *s, int64_t now_ns)
{
    uint64_t discarded = s->discarded_bytes - vm->discarded_bytes;
    uint64_t growth = 0, before, churned;

    if (s->host_bytes != POLICY_BYTES_UNKNOWN && vm->host_bytes != POLICY_BYTES_UNKNOWN) {
        /* What was discarded in between has hidden as much growth. */
        before = vm->host_bytes - MIN(vm->host_bytes, discarded);
        growth = s->host_bytes - MIN(s->host_bytes, before);
    }
    account_pool_age(config, vm, now_ns);
    vm->pool_bytes[0] += discarded;
    churned = account_pool_take(vm, growth);
    vm->window_discarded_bytes += discarded;
    vm->window_churned_bytes += churned;
    vm->churned_total_bytes += churned;
}

/* The calm delay: up by a factor with churn, down in steps without */
static void account_calm_delay(const PolicyConfig *config, PolicyVm *vm, int64_t now_ns)
{
    uint64_t longer = law_scale(vm->calm_delay_ms, config->churn_factor_percent, 100);
    uint32_t shorter = vm->calm_delay_ms - MIN(vm->calm_delay_ms, config->calm_step_ms);

    if (vm->churn_permille > config->churn_percent * 10) {
        vm->calm_delay_ms = MIN(longer, config->calm_delay_max_ms);
        vm->quiet_ns = now_ns;
    } else if (law_passed(now_ns, vm->quiet_ns, config->calm_quiet_ms)) {
        vm->calm_delay_ms = MAX(shorter, config->calm_delay_min_ms);
        vm->quiet_ns = now_ns;
    }
}

static void account_window(const PolicyConfig *config, PolicyVm *vm,
                           const PolicyVmSample *s, int64_t now_ns)
{
    uint64_t discarded = vm->window_discarded_bytes;

    if (!law_passed(now_ns, vm->window_ns, config->churn_window_ms)) {
        return;
    }
    if (discarded && discarded >= account_noise_bytes(config, s)) {
        uint64_t churned = MIN(vm->window_churned_bytes, discarded);

        vm->churn_permille = law_scale(churned, 1000, discarded);
    } else {
        vm->churn_permille /= 2;
    }
    account_calm_delay(config, vm, now_ns);
    vm->window_discarded_bytes = vm->window_churned_bytes = 0;
    vm->window_ns = now_ns;
}

void law_vm_effect_start(PolicyVm *vm, int64_t now_ns)
{
    vm->effect_ns = now_ns;
    vm->effect_bytes = vm->discarded_bytes;
}

/* Whether so many delays have brought anything; if not, the VM rests */
static void account_effect(const PolicyConfig *config, PolicyVm *vm,
                           const PolicyVmSample *s, int64_t now_ns)
{
    /* A delay of 0 is over sooner than anybody asks. */
    uint32_t delay_ms = MAX(vm->asked_ms, config->urgent_delay_ms);
    uint64_t period_ms = (uint64_t)delay_ms * config->no_effect_delays;

    if (!vm->effect_ns || !vm->sure || vm->in_flight ||
        vm->asked_ms >= config->watch_delay_ms ||
        s->query_sent_ns - vm->effect_ns < (int64_t)period_ms * NS_PER_MS) {
        return;
    }
    if (s->discarded_bytes - vm->effect_bytes < account_noise_bytes(config, s)) {
        vm->rest_until_ns = now_ns + config->no_effect_rest_ms * NS_PER_MS;
        vm->rest_bytes = s->discarded_bytes;
        vm->rest_backlog_bytes = law_backlog_bytes(s);
    }
    law_vm_effect_start(vm, s->query_sent_ns);
    vm->effect_bytes = s->discarded_bytes;
}

/*
 * A VM at rest need not wait if it returns that much at the WATCH delay, or if
 * its backlog has grown so that the first pass would: a pass takes a sixteenth.
 * The backlog is the guest's word; one that lies keeps but itself short.
 */
static void account_rest(const PolicyConfig *config, PolicyVm *vm,
                         const PolicyVmSample *s, int64_t now_ns)
{
    uint64_t noise = account_noise_bytes(config, s);
    uint64_t backlog = law_backlog_bytes(s);
    uint64_t returned = s->discarded_bytes - MIN(s->discarded_bytes, vm->rest_bytes);
    uint64_t grown = backlog - MIN(backlog, vm->rest_backlog_bytes);

    if (now_ns < vm->rest_until_ns && noise &&
        (returned >= noise || grown / 16 >= noise)) {
        vm->rest_until_ns = now_ns;
    }
}

void law_vm_account(const PolicyConfig *config, PolicyVm *vm, const PolicyVmSample *s,
                    int64_t now_ns)
{
    if (!vm->query_ns || !s->negotiated || s->discarded_bytes < vm->discarded_bytes) {
        /* A VM, a guest or a device that is new */
        account_restart(vm, s, now_ns);
        return;
    }
    account_rest(config, vm, s, now_ns);
    account_effect(config, vm, s, now_ns);
    if (!account_first_drain(config, vm, s)) {
        account_churn(config, vm, s, now_ns);
        account_window(config, vm, s, now_ns);
    }
    vm->query_ns = s->query_sent_ns;
    vm->discarded_bytes = s->discarded_bytes;
    vm->host_bytes = s->host_bytes;
}
