/*
 * Measure, decide, act: the table of VMs and what a tick does with it
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <string.h>

#include "backends.h"
#include "engine.h"
#include "log.h"

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

/* A query without an answer is given up, and may be sent again. */
#define QUERY_GIVE_UP_NS (10 * NS_PER_S)

/* "It is not being migrated" is believed this long. */
#define MIGRATION_KNOWN_NS (2 * NS_PER_S)

/* Two ticks are this far apart, but for PSI events. */
#define TICK_MIN_NS (20 * NS_PER_MS)

/* Lines about single VMs that are logged in ten seconds. */
#define LINES_PER_PERIOD 20
#define LINES_PERIOD_NS (10 * NS_PER_S)

/* The same words about the same VM are not repeated before. */
#define TOLD_AGAIN_NS (600 * NS_PER_S)

static int64_t now_ns(void)
{
    return g_get_monotonic_time() * 1000;
}

static size_t index_of(const Guest *guest)
{
    return GPOINTER_TO_SIZE(guest->data) - 1;
}

gssize engine_find(const Engine *engine, const char *name)
{
    return (gssize)GPOINTER_TO_SIZE(g_hash_table_lookup(engine->by_name, name)) - 1;
}

/* The log */

/* A thousand VMs must not become a thousand lines at once. */
static bool may_log(Engine *engine)
{
    int64_t now = now_ns();

    if (now - engine->lines_ns >= LINES_PERIOD_NS) {
        if (engine->lines_held) {
            log_info("%u more lines about single VMs were left out", engine->lines_held);
        }
        engine->lines_held = 0;
        engine->lines_left = LINES_PER_PERIOD;
        engine->lines_ns = now;
    }
    if (!engine->lines_left) {
        engine->lines_held++;
        return false;
    }
    engine->lines_left--;
    return true;
}

static void tell_vm(Engine *engine, Vm *vm, GLogLevelFlags level, const char *text)
{
    int64_t now = now_ns();

    if (g_strcmp0(vm->told, text) == 0 && now - vm->told_ns < TOLD_AGAIN_NS) {
        return;
    }
    g_free(vm->told);
    vm->told = g_strdup(text);
    vm->told_ns = now;
    if (may_log(engine)) {
        log_vm(level, vm->name, "%s", text);
    }
}

/* The table of VMs */

static void table_grow(Engine *engine)
{
    if (engine->vm_count < engine->vm_room) {
        return;
    }
    engine->vm_room = MAX(16, engine->vm_room * 2);
    engine->vms = g_renew(Vm, engine->vms, engine->vm_room);
    engine->states = g_renew(PolicyVm, engine->states, engine->vm_room);
    engine->samples = g_renew(PolicyVmSample, engine->samples, engine->vm_room);
    engine->commands = g_renew(PolicyCommand, engine->commands, engine->vm_room);
}

/* Name and configuration are the operator's view: the same over restarts. */
static uint64_t id_of(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    /* FNV-1a */
    for (; *name; name++) {
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static void apply_config(Engine *engine, size_t i)
{
    Vm *vm = &engine->vms[i];
    PolicyVmSample *s = &engine->samples[i];
    const Pin *pin = engine_get_pin(engine, vm->name);

    vm->config = config_vm(engine->config, vm->name);
    s->steer = vm->config.steer;
    s->weight = vm->config.weight;
    s->min_delay_ms = vm->config.min_delay_ms;
    s->max_delay_ms = vm->config.max_delay_ms;
    s->pin_ms = pin ? pin->delay_ms : 0;
    s->pin_until_ns = pin ? pin->until_ns : 0;
}

static void on_found(void *opaque, Guest *guest)
{
    Engine *engine = opaque;
    size_t i = engine->vm_count;
    Vm *vm;

    table_grow(engine);
    engine->vm_count++;
    vm = &engine->vms[i];
    *vm = (Vm){
        .guest = guest,
        .name = g_strdup(guest->name),
        .statm = PROC_FILE_INIT,
        .pretended_ms = POLICY_DELAY_NONE,
        .told_why = POLICY_WHY_UNREACHABLE,
    };
    if (engine_find(engine, vm->name) >= 0) {
        /* Another backend has one of that name. */
        g_free(vm->name);
        vm->name = g_strdup_printf("%s/%s", guest->backend->class->name, guest->name);
    }
    guest->data = GSIZE_TO_POINTER(i + 1);
    g_hash_table_insert(engine->by_name, vm->name, GSIZE_TO_POINTER(i + 1));
    policy_vm_init(&engine->states[i], &engine->config->policy, id_of(vm->name));
    engine->samples[i] = (PolicyVmSample){
        .requested_ms = POLICY_DELAY_NONE,
        .applied_ms = POLICY_DELAY_NONE,
        .host_bytes = POLICY_BYTES_UNKNOWN,
        .guest_used_bytes = POLICY_BYTES_UNKNOWN,
        .migration = POLICY_MIGRATION_UNKNOWN,
    };
    apply_config(engine, i);
}

static void on_lost(void *opaque, Guest *guest)
{
    Engine *engine = opaque;
    size_t i = index_of(guest), last = engine->vm_count - 1;
    Vm *vm = &engine->vms[i];

    g_hash_table_remove(engine->by_name, vm->name);
    proc_file_clear(&vm->statm);
    g_free(vm->name);
    g_free(vm->told);
    if (i != last) {
        engine->vms[i] = engine->vms[last];
        engine->states[i] = engine->states[last];
        engine->samples[i] = engine->samples[last];
        engine->vms[i].guest->data = GSIZE_TO_POINTER(i + 1);
        g_hash_table_insert(engine->by_name, engine->vms[i].name,
                            GSIZE_TO_POINTER(i + 1));
    }
    engine->vm_count--;
}

static void send_query(Engine *engine, size_t i, int64_t now)
{
    Vm *vm = &engine->vms[i];
    bool hurry = engine->outcome.state >= POLICY_TIGHT;
    GuestCommand command = {
        .op = GUEST_OP_QUERY,
        .tag = ++vm->queries,
        /* They take two more exchanges each. */
        .hints = !hurry || vm->queries % 8 == 1,
    };

    if (guest_send(vm->guest, &command)) {
        vm->query_ns = now;
        vm->query_out = true;
        engine->counters.queries++;
    }
}

/* Another QEMU of the same name has nothing of what the last one was asked. */
static void new_process(Engine *engine, size_t i)
{
    Vm *vm = &engine->vms[i];
    g_autofree char *pid = g_strdup_printf("%d", vm->guest->pid);
    g_autofree char *path =
        g_build_filename(engine->config->proc_folder, pid, "statm", NULL);

    vm->pid = vm->guest->pid;
    proc_file_clear(&vm->statm);
    if (vm->pid > 0) {
        proc_file_init(&vm->statm, path);
    }
    vm->known = false;
    policy_vm_init(&engine->states[i], &engine->config->policy, engine->states[i].id);
}

static void on_changed(void *opaque, Guest *guest)
{
    Engine *engine = opaque;
    size_t i = index_of(guest);
    Vm *vm = &engine->vms[i];
    PolicyVmSample *s = &engine->samples[i];

    vm->query_out = false;
    if (!guest->up) {
        if (s->connected && engine->states[i].in_flight) {
            s->reply_serial = engine->states[i].serial;
            s->reply = POLICY_REPLY_LOST;
            engine->counters.lost++;
        }
        if (s->connected) {
            tell_vm(engine, vm, G_LOG_LEVEL_MESSAGE, guest->why);
        }
        s->connected = false;
        s->query_sent_ns = 0;
        return;
    }
    s->connected = true;
    s->migration = POLICY_MIGRATION_UNKNOWN;
    if (guest->pid != vm->pid || !vm->pid) {
        new_process(engine, i);
        s->reply_serial = 0;
        s->reply = POLICY_REPLY_NONE;
    }
    send_query(engine, i, now_ns());
}

static void command_answered(Engine *engine, size_t i, const GuestAnswer *answer)
{
    PolicyVmSample *s = &engine->samples[i];

    s->reply_serial = answer->tag;
    switch (answer->verdict) {
    case GUEST_OK:
        s->reply = POLICY_REPLY_OK;
        engine->counters.ok++;
        break;
    case GUEST_MIGRATING:
        s->reply = POLICY_REPLY_MIGRATING;
        s->migration = POLICY_MIGRATION_YES;
        engine->counters.migrating++;
        break;
    case GUEST_LOST:
        s->reply = POLICY_REPLY_LOST;
        engine->counters.lost++;
        tell_vm(engine, &engine->vms[i], G_LOG_LEVEL_WARNING, answer->error);
        break;
    case GUEST_REFUSED:
        s->reply = POLICY_REPLY_ERROR;
        engine->counters.refused++;
        tell_vm(engine, &engine->vms[i], G_LOG_LEVEL_WARNING, answer->error);
        break;
    }
}

static void count_returned(Vm *vm, const GuestInfo *info, int64_t now)
{
    int64_t passed_ms = (now - vm->known_ns) / NS_PER_MS;

    vm->returned_bytes_per_s = 0;
    if (vm->known && passed_ms > 0 && info->discarded_bytes > vm->info.discarded_bytes) {
        vm->returned_bytes_per_s =
            (info->discarded_bytes - vm->info.discarded_bytes) / passed_ms * 1000;
    }
}

static void query_answered(Engine *engine, size_t i, const GuestAnswer *answer)
{
    Vm *vm = &engine->vms[i];
    PolicyVmSample *s = &engine->samples[i];
    int64_t now = now_ns();
    bool first = !s->query_sent_ns;

    vm->query_out = false;
    if (answer->verdict == GUEST_LOST) {
        tell_vm(engine, vm, G_LOG_LEVEL_WARNING, answer->error);
        return;
    }
    s->query_sent_ns = vm->query_ns;
    if (answer->verdict != GUEST_OK) {
        /* A QEMU without the commands, or without a balloon. */
        s->offered = false;
        tell_vm(engine, vm, G_LOG_LEVEL_MESSAGE, answer->error);
        return;
    }
    count_returned(vm, &answer->info, now);
    vm->info = answer->info;
    vm->known = true;
    vm->known_ns = now;
    if (engine->dry_run && vm->pretended_ms != POLICY_DELAY_NONE) {
        vm->info.requested_ms = vm->pretended_ms;
        vm->info.applied_ms = vm->pretended_ms;
    }
    s->offered = vm->info.offered;
    s->negotiated = vm->info.negotiated;
    s->inhibited = vm->info.inhibited;
    s->requested_ms = vm->info.requested_ms;
    s->applied_ms = vm->info.applied_ms;
    s->discarded_bytes = vm->info.discarded_bytes;
    s->host_bytes = answer->has_rss ? answer->rss_bytes : probe_rss(&vm->statm);
    if (answer->has_used) {
        s->guest_used_bytes = answer->used_bytes;
    }
    if (answer->has_migrating) {
        vm->migration_ns = now;
        s->migration = answer->migrating ? POLICY_MIGRATION_YES : POLICY_MIGRATION_NO;
    }
    if (first) {
        engine_kick(engine);
    }
}

static void on_answered(void *opaque, Guest *guest, const GuestAnswer *answer)
{
    Engine *engine = opaque;
    size_t i = index_of(guest);

    if (answer->op != GUEST_OP_QUERY) {
        command_answered(engine, i, answer);
    } else if (answer->tag == engine->vms[i].queries) {
        query_answered(engine, i, answer);
    }
}

static void on_applied(void *opaque, Guest *guest, uint32_t applied_ms,
                       uint32_t requested_ms)
{
    Engine *engine = opaque;
    Vm *vm = &engine->vms[index_of(guest)];

    vm->info.applied_ms = applied_ms;
    if (applied_ms != requested_ms && !vm->query_out) {
        /* Somebody else may be at work: ask, with the next tick. */
        vm->query_ns = 0;
    }
}

static void on_trouble(void *opaque, const Guest *guest, const char *text)
{
    Engine *engine = opaque;

    if (guest) {
        tell_vm(engine, &engine->vms[index_of(guest)], G_LOG_LEVEL_WARNING, text);
    } else {
        log_warning("%s", text);
    }
}

/* Pins */

void engine_pin(Engine *engine, const char *name, const Pin *pin)
{
    gssize i = engine_find(engine, name);

    if (pin) {
        g_hash_table_insert(engine->pins, g_strdup(name), g_memdup2(pin, sizeof(*pin)));
    } else {
        g_hash_table_remove(engine->pins, name);
    }
    if (i >= 0) {
        apply_config(engine, i);
    }
    engine_kick(engine);
}

const Pin *engine_get_pin(const Engine *engine, const char *name)
{
    return g_hash_table_lookup(engine->pins, name);
}

static gboolean pin_is_over(gpointer name, gpointer pin, gpointer opaque)
{
    (void)name;
    return ((Pin *)pin)->until_ns <= *(int64_t *)opaque;
}

/* A tick: measure */

static bool wants_query(const Engine *engine, size_t i, int64_t now, int64_t interval_ns)
{
    const Vm *vm = &engine->vms[i];

    if (!vm->guest->up) {
        return false;
    }
    if (vm->query_out) {
        return now - vm->query_ns >= QUERY_GIVE_UP_NS;
    }
    return now - vm->query_ns >= interval_ns;
}

/*
 * Some of the VMs whose answer is old, in turn: as many as make all of them
 * come round in time, so that a thousand are not asked at once.
 */
static void send_queries(Engine *engine, int64_t now, int64_t passed_ns)
{
    int64_t interval_ns =
        policy_query_interval_ms(&engine->config->policy, engine->outcome.state) *
        NS_PER_MS;
    size_t share = engine->vm_count * MIN(passed_ns, interval_ns) * 2 / interval_ns + 4;

    for (size_t n = 0; n < engine->vm_count && share; n++) {
        size_t i = (engine->query_cursor + n) % engine->vm_count;

        /* A tick early, or the turn would come late by one. */
        if (wants_query(engine, i, now, interval_ns - MIN(passed_ns, interval_ns / 4))) {
            send_query(engine, i, now);
            engine->query_cursor = i + 1;
            share--;
        }
    }
}

static void forget_migrations(Engine *engine, int64_t now)
{
    for (size_t i = 0; i < engine->vm_count; i++) {
        PolicyVmSample *s = &engine->samples[i];

        if (s->migration == POLICY_MIGRATION_NO &&
            now - engine->vms[i].migration_ns >= MIGRATION_KNOWN_NS) {
            s->migration = POLICY_MIGRATION_UNKNOWN;
        }
    }
}

/* Act */

static void act_dry(Engine *engine, const PolicyCommand *c)
{
    Vm *vm = &engine->vms[c->vm];
    PolicyVmSample *s = &engine->samples[c->vm];

    vm->pretended_ms = c->delay_ms;
    s->reply_serial = c->serial;
    s->reply = POLICY_REPLY_OK;
    if (!c->renewal && may_log(engine)) {
        if (c->action == POLICY_SET) {
            log_vm(G_LOG_LEVEL_MESSAGE, vm->name,
                   "would be asked for %u ms, "
                   "lease %u s (%s)",
                   c->delay_ms, c->lease_ms / 1000, policy_why_name(c->why));
        } else {
            log_vm(G_LOG_LEVEL_MESSAGE, vm->name, "the request would be withdrawn");
        }
    }
}

/* For run --verbose alone. */
static void log_command(Engine *engine, const PolicyCommand *c)
{
    const char *name = engine->vms[c->vm].name;

    if (c->action == POLICY_WITHDRAW) {
        log_vm(G_LOG_LEVEL_DEBUG, name, "the request is withdrawn (%s)",
               policy_why_name(c->why));
    } else if (!c->renewal) {
        log_vm(G_LOG_LEVEL_DEBUG, name, "asked for %u ms, lease %u s (%s)", c->delay_ms,
               c->lease_ms / 1000, policy_why_name(c->why));
    }
}

static void act(Engine *engine, const PolicyCommand *c)
{
    GuestCommand command = {
        .op = c->action == POLICY_SET ? GUEST_OP_SET : GUEST_OP_WITHDRAW,
        .tag = c->serial,
        .delay_ms = c->delay_ms,
        .lease_ms = c->lease_ms,
        .not_while_migrating = c->ask_migration,
    };

    if (c->action == POLICY_WITHDRAW) {
        engine->counters.withdrawals++;
    } else if (c->renewal) {
        engine->counters.renewals++;
    } else {
        engine->counters.sets++;
    }
    log_command(engine, c);
    if (engine->dry_run) {
        act_dry(engine, c);
    } else if (!guest_send(engine->vms[c->vm].guest, &command)) {
        engine->samples[c->vm].reply_serial = c->serial;
        engine->samples[c->vm].reply = POLICY_REPLY_LOST;
        engine->counters.lost++;
    }
}

/* Say what an operator should know */

static void log_outcome(Engine *engine)
{
    const PolicyOutcome *o = &engine->outcome;
    g_autofree char *text = NULL;
    g_autofree char *tte = NULL;

    if (o->exhausted_changed) {
        log_info("%s",
                 o->exhausted
                     ? "exhausted: no VM returns memory any more, a short delay has "
                       "no more to give"
                     : "no longer exhausted");
    }
    if (o->state == o->from) {
        return;
    }
    engine->counters.transitions++;
    if (o->tte_ms < 3600 * 1000) {
        tte = g_strdup_printf(", lasts %.1f s", o->tte_ms / 1000.0);
    }
    text = g_strdup_printf(
        "%s; usable %" G_GUINT64_FORMAT " MiB, floor %" G_GUINT64_FORMAT
        " MiB%s; %zu of %zu VMs at %u ms",
        policy_reason_name(o->reason), o->usable_bytes >> 20, o->floor_bytes >> 20,
        tte ? tte : "", o->steered, engine->vm_count, o->delay_ms);
    log_transition(policy_state_name(o->from), policy_state_name(o->state),
                   policy_reason_name(o->reason), text);
}

static void log_whys(Engine *engine)
{
    for (size_t i = 0; i < engine->vm_count; i++) {
        Vm *vm = &engine->vms[i];
        PolicyWhy why = engine->states[i].why;

        if (why == vm->told_why) {
            continue;
        }
        vm->told_why = why;
        switch (why) {
        case POLICY_WHY_NO_EFFECT:
        case POLICY_WHY_MIGRATING:
        case POLICY_WHY_NOT_OFFERED:
        case POLICY_WHY_NOT_NEGOTIATED:
        case POLICY_WHY_INHIBITED:
        case POLICY_WHY_OTHER_WRITER:
        case POLICY_WHY_TAKING_BACK:
        case POLICY_WHY_BACK_OFF:
            if (may_log(engine)) {
                log_vm(G_LOG_LEVEL_MESSAGE, vm->name, "%s", policy_why_name(why));
            }
            break;
        default:
            break;
        }
    }
}

/* All of it */

static void schedule(Engine *engine, int64_t at_ns)
{
    g_source_set_ready_time(engine->timer,
                            MAX(at_ns, engine->tick_ns + TICK_MIN_NS) / 1000);
}

void engine_kick(Engine *engine)
{
    if (engine->timer) {
        schedule(engine, 0);
    }
}

static void tick_backends(Engine *engine, int64_t now)
{
    for (guint i = 0; i < engine->backends->len; i++) {
        GuestBackend *backend = engine->backends->pdata[i];

        backend->class->tick(backend, now / 1000);
    }
}

static void tick(Engine *engine)
{
    int64_t now = now_ns(), passed_ns = now - engine->tick_ns;
    size_t count;

    engine->tick_ns = now;
    tick_backends(engine, now);
    g_hash_table_foreach_remove(engine->pins, pin_is_over, &now);

    probe_read(engine->probe, &engine->sample, now);
    forget_migrations(engine, now);
    engine->counters.psi_some += engine->sample.psi_some_events;
    engine->counters.psi_full += engine->sample.psi_full_events;
    engine->sample.stopping = engine->stopping;
    engine->sample.vms = engine->samples;
    engine->sample.vm_count = engine->vm_count;
    count = policy_step(&engine->config->policy, &engine->host, engine->states,
                        &engine->sample, now, engine->commands, &engine->outcome);
    for (size_t i = 0; i < count; i++) {
        act(engine, &engine->commands[i]);
    }
    /* What was decided goes out before anything is asked or said. */
    log_outcome(engine);
    log_whys(engine);
    send_queries(engine, now, passed_ns);

    engine->counters.ticks++;
    engine->counters.tick_ns_max =
        MAX(engine->counters.tick_ns_max, (uint64_t)(now_ns() - now));
    schedule(engine, engine->stopping ? 0 : engine->outcome.next_ns);
    if (engine->ticked) {
        engine->ticked(engine->opaque);
    }
}

static gboolean timer_dispatch(GSource *source, GSourceFunc callback, gpointer opaque)
{
    (void)callback;
    g_source_set_ready_time(source, -1);
    tick(opaque);
    return G_SOURCE_CONTINUE;
}

static GSourceFuncs timer_funcs = { .dispatch = timer_dispatch };

static gboolean timer_callback(gpointer opaque)
{
    (void)opaque;
    return G_SOURCE_CONTINUE;
}

/* An event tells what a tick would have seen late. */
static void on_psi_event(void *opaque)
{
    Engine *engine = opaque;

    g_source_set_ready_time(engine->timer, 0);
}

Engine *engine_new(Config *config, bool dry_run)
{
    Engine *engine = g_new0(Engine, 1);

    engine->config = config;
    engine->dry_run = dry_run;
    engine->listener = (GuestListener){
        .opaque = engine,
        .found = on_found,
        .changed = on_changed,
        .lost = on_lost,
        .answered = on_answered,
        .applied = on_applied,
        .trouble = on_trouble,
    };
    engine->backends = g_ptr_array_new();
    engine->by_name = g_hash_table_new(g_str_hash, g_str_equal);
    engine->pins = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    engine->started_ns = now_ns();
    policy_host_init(&engine->host, &config->policy, engine->started_ns);
    engine->timer = g_source_new(&timer_funcs, sizeof(GSource));
    g_source_set_callback(engine->timer, timer_callback, engine, NULL);
    /* Before the guests' answers, after PSI. */
    g_source_set_priority(engine->timer, G_PRIORITY_HIGH);
    g_source_set_ready_time(engine->timer, 0);
    g_source_attach(engine->timer, NULL);
    engine->probe = probe_new(config, on_psi_event, engine);
    return engine;
}

void engine_free(Engine *engine)
{
    if (!backends_stop(engine->backends)) {
        log_warning("a call to a VM hangs: it is not waited for");
    }
    g_ptr_array_unref(engine->backends);
    g_source_destroy(engine->timer);
    g_source_unref(engine->timer);
    probe_free(engine->probe);
    g_hash_table_unref(engine->by_name);
    g_hash_table_unref(engine->pins);
    g_free(engine->vms);
    g_free(engine->states);
    g_free(engine->samples);
    g_free(engine->commands);
    config_free(engine->config);
    g_free(engine);
}

bool engine_add_backend(Engine *engine, const GuestBackendClass *class, const char *where,
                        GError **errp)
{
    GuestBackend *backend = class->start(where, &engine->listener, errp);

    if (!backend) {
        return false;
    }
    g_ptr_array_add(engine->backends, backend);
    return true;
}

void engine_reload(Engine *engine, Config *config)
{
    config_free(engine->config);
    engine->config = config;
    for (size_t i = 0; i < engine->vm_count; i++) {
        apply_config(engine, i);
    }
    engine_kick(engine);
}

void engine_stop(Engine *engine)
{
    engine->stopping = true;
    engine_kick(engine);
}

bool engine_is_idle(const Engine *engine)
{
    for (size_t i = 0; i < engine->vm_count; i++) {
        const PolicyVm *state = &engine->states[i];

        if (engine->samples[i].connected &&
            (state->in_flight || state->asked_ms != POLICY_DELAY_NONE)) {
            return false;
        }
    }
    return true;
}
