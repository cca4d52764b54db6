/*
 * A recorded trace through the law
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <inttypes.h>
#include <string.h>

#include "replay.h"
#include "trace.h"

#define MS INT64_C(1000000)

typedef struct Replay {
    const PolicyConfig *config;
    FILE *out;
    bool verbose;
    ReplayResult *result;
    GHashTable *index; /* name -> index + 1 */
    GPtrArray *names;
    GArray *vms;      /* PolicyVm */
    GArray *samples;  /* PolicyVmSample, parallel */
    GArray *commands; /* PolicyCommand, as many */
    PolicyHost host;
    PolicySample sample;
    PolicyOutcome outcome;
    bool started;
    int64_t start_ms; /* of the trace */
    int64_t now_ns;
} Replay;

/* The law's time: from the first row, and never 0 */
static int64_t replay_ns(const Replay *r, int64_t time_ms)
{
    return (time_ms - r->start_ms + 1000) * MS;
}

/* The trace's time, for people */
static double replay_s(const Replay *r)
{
    return (double)(r->now_ns / MS + r->start_ms - 1000) / 1e3;
}

static uint64_t name_hash(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *name; name++) {
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static size_t replay_vm(Replay *r, const char *name)
{
    gpointer found = g_hash_table_lookup(r->index, name);
    PolicyVm vm;
    char *key;

    if (found) {
        return GPOINTER_TO_SIZE(found) - 1;
    }
    key = g_strdup(name);
    policy_vm_init(&vm, r->config, name_hash(name));
    g_array_append_val(r->vms, vm);
    g_array_set_size(r->samples, r->vms->len);
    g_array_set_size(r->commands, r->vms->len);
    g_ptr_array_add(r->names, key);
    g_hash_table_insert(r->index, key, GSIZE_TO_POINTER(r->vms->len));
    return r->vms->len - 1;
}

/* The last one takes the place of the one that goes. */
static void replay_gone(Replay *r, const char *name)
{
    gpointer found = g_hash_table_lookup(r->index, name);
    size_t at = GPOINTER_TO_SIZE(found) - 1;

    if (!found) {
        return;
    }
    g_hash_table_remove(r->index, name);
    g_array_remove_index_fast(r->vms, at);
    g_array_remove_index_fast(r->samples, at);
    g_ptr_array_remove_index_fast(r->names, at);
    g_array_set_size(r->commands, r->vms->len);
    if (at < r->vms->len) {
        g_hash_table_insert(r->index, r->names->pdata[at], GSIZE_TO_POINTER(at + 1));
    }
}

static void replay_sample(Replay *r, const TraceRow *row)
{
    size_t at = replay_vm(r, row->name);
    PolicyVmSample *s = &g_array_index(r->samples, PolicyVmSample, at);
    PolicyVm *vm = &g_array_index(r->vms, PolicyVm, at);
    uint32_t serial = s->reply_serial;
    PolicyReply reply = s->reply;

    *s = row->vm;
    s->query_sent_ns = replay_ns(r, row->time_ms);
    s->requested_ms = s->applied_ms = vm->asked_ms;
    s->reply_serial = serial;
    s->reply = reply;
}

static void replay_command(Replay *r, const PolicyCommand *c)
{
    PolicyVmSample *s = &g_array_index(r->samples, PolicyVmSample, c->vm);
    const char *name = r->names->pdata[c->vm];
    double time_s = replay_s(r);

    s->reply_serial = c->serial;
    s->reply = POLICY_REPLY_OK;
    r->result->commands++;
    r->result->withdrawals += c->action == POLICY_WITHDRAW;
    if (!r->out || !r->verbose) {
        return;
    }
    if (c->action == POLICY_WITHDRAW) {
        fprintf(r->out, "%.3f s  %s: withdraw (%s)\n", time_s, name,
                policy_why_name(c->why));
    } else {
        fprintf(r->out, "%.3f s  %s: %s %" PRIu32 " ms, lease %" PRIu32 " s (%s)\n",
                time_s, name, c->renewal ? "renew" : "set", c->delay_ms,
                c->lease_ms / 1000, policy_why_name(c->why));
    }
}

static void replay_transition(Replay *r)
{
    const PolicyOutcome *o = &r->outcome;

    if (o->state == o->from) {
        return;
    }
    r->result->transitions++;
    if (r->out) {
        fprintf(r->out,
                "%.3f s  %s -> %s: %s; usable %" PRIu64 " MiB, floor %" PRIu64 " MiB\n",
                replay_s(r), policy_state_name(o->from), policy_state_name(o->state),
                policy_reason_name(o->reason), o->usable_bytes >> 20,
                o->floor_bytes >> 20);
    }
}

static void replay_step(Replay *r, int64_t now_ns)
{
    PolicyState before = r->outcome.state;

    if (r->started) {
        r->result->state_s[before] += (double)(now_ns - r->now_ns) / 1e9;
    }
    r->now_ns = now_ns;
    r->sample.vms = (PolicyVmSample *)r->samples->data;
    r->sample.vm_count = r->vms->len;
    policy_step(r->config, &r->host, (PolicyVm *)r->vms->data, &r->sample, now_ns,
                (PolicyCommand *)r->commands->data, &r->outcome);
    r->sample.psi_some_events = r->sample.psi_full_events = 0;
    r->started = true;
    r->result->steps++;
    replay_transition(r);
    for (size_t i = 0; i < r->outcome.commands; i++) {
        replay_command(r, &g_array_index(r->commands, PolicyCommand, i));
    }
}

/* The law's own steps up to a row; what it saw last has not changed */
static void replay_until(Replay *r, int64_t time_ns)
{
    while (r->started && r->outcome.next_ns < time_ns) {
        replay_step(r, r->outcome.next_ns);
    }
}

static bool replay_rows(Replay *r, TraceReader *reader, GError **error)
{
    TraceRow row;

    while (trace_read(reader, &row, error)) {
        int64_t time_ns;

        if (row.kind == TRACE_END) {
            return true;
        }
        if (reader->rows == 1) {
            r->start_ms = row.time_ms;
        }
        time_ns = replay_ns(r, row.time_ms);
        replay_until(r, time_ns);
        if (row.kind == TRACE_HOST) {
            r->sample = row.host;
            replay_step(r, time_ns);
        } else if (row.kind == TRACE_VM) {
            replay_sample(r, &row);
        } else {
            replay_gone(r, row.name);
        }
    }
    return false;
}

static void replay_summary(const Replay *r)
{
    const ReplayResult *result = r->result;

    fprintf(r->out,
            "%" PRIu64 " steps, %" PRIu32 " transitions, %" PRIu64 " commands, %" PRIu64
            " of them withdrawals, %zu VMs at the end\n",
            result->steps, result->transitions, result->commands, result->withdrawals,
            result->vms);
    for (int i = 0; i < POLICY_STATES; i++) {
        fprintf(r->out, "%-6s %10.1f s\n", policy_state_name(i), result->state_s[i]);
    }
}

bool replay_run(FILE *file, const char *file_name, const PolicyConfig *config, FILE *out,
                bool verbose, ReplayResult *result, GError **error)
{
    g_autoptr(GHashTable) index = g_hash_table_new(g_str_hash, g_str_equal);
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GArray) vms = g_array_new(FALSE, TRUE, sizeof(PolicyVm));
    g_autoptr(GArray) samples = g_array_new(FALSE, TRUE, sizeof(PolicyVmSample));
    g_autoptr(GArray) commands = g_array_new(FALSE, TRUE, sizeof(PolicyCommand));
    Replay r = {
        .config = config,
        .out = out,
        .verbose = verbose,
        .result = result,
        .index = index,
        .names = names,
        .vms = vms,
        .samples = samples,
        .commands = commands,
    };
    TraceReader reader;

    *result = (ReplayResult){ 0 };
    policy_host_init(&r.host, config, 0);
    if (!trace_open(&reader, file, file_name, error) ||
        !replay_rows(&r, &reader, error)) {
        return false;
    }
    result->vms = vms->len;
    if (out) {
        replay_summary(&r);
    }
    return true;
}
