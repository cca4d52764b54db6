/*
 * What an operator sees of the engine, as JSON
 *
 * Written by hand: a thousand VMs as a tree of nodes would be megabytes.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "status.h"

#define NS_PER_MS INT64_C(1000000)

void status_quote(GString *json, const char *text)
{
    g_string_append_c(json, '"');
    for (; *text; text++) {
        unsigned char c = *text;

        if (c == '"' || c == '\\') {
            g_string_append_printf(json, "\\%c", c);
        } else if (c < ' ') {
            g_string_append_printf(json, "\\u%04x", c);
        } else {
            g_string_append_c(json, c);
        }
    }
    g_string_append_c(json, '"');
}

static void put_text(GString *json, const char *name, const char *text)
{
    g_string_append_printf(json, "\"%s\":", name);
    status_quote(json, text);
    g_string_append_c(json, ',');
}

static void put_count(GString *json, const char *name, uint64_t value)
{
    g_string_append_printf(json, "\"%s\":%" G_GUINT64_FORMAT ",", name, value);
}

static void put_bool(GString *json, const char *name, bool value)
{
    g_string_append_printf(json, "\"%s\":%s,", name, value ? "true" : "false");
}

/* Left out if there is none. */
static void put_ms(GString *json, const char *name, uint32_t ms)
{
    if (ms != POLICY_DELAY_NONE) {
        put_count(json, name, ms);
    }
}

static void put_bytes(GString *json, const char *name, uint64_t bytes)
{
    if (bytes != POLICY_BYTES_UNKNOWN) {
        put_count(json, name, bytes);
    }
}

/* The last comma becomes the end. */
static void put_end(GString *json, char end)
{
    if (json->str[json->len - 1] == ',') {
        json->str[json->len - 1] = end;
    } else {
        g_string_append_c(json, end);
    }
}

static void put_host(const Engine *engine, GString *json)
{
    const PolicyOutcome *o = &engine->outcome;
    int64_t now_ns = g_get_monotonic_time() * 1000;

    g_string_append(json, "\"host\":{");
    put_text(json, "state", policy_state_name(o->state));
    put_text(json, "reason", policy_reason_name(o->reason));
    put_text(json, "held-by", policy_hold_name(o->held_by));
    put_count(json, "hold-left-ms", MAX(o->hold_left_ms, 0));
    put_count(json, "in-state-ms",
              engine->host.entered_ns ? (now_ns - engine->host.entered_ns) / NS_PER_MS
                                      : 0);
    put_bool(json, "readable", engine->sample.readable);
    put_bytes(json, "ram-bytes", engine->sample.ram_bytes);
    put_bytes(json, "available-bytes", engine->sample.available_bytes);
    put_bytes(json, "free-bytes", engine->sample.free_bytes);
    put_bytes(json, "high-watermark-bytes", engine->sample.high_watermark_bytes);
    put_bytes(json, "usable-bytes", o->usable_bytes);
    put_bytes(json, "floor-bytes", o->floor_bytes);
    if (o->tte_ms != POLICY_TTE_MS_NEVER) {
        put_count(json, "tte-ms", MAX(o->tte_ms, 0));
    }
    put_text(json, "psi", probe_psi_text(engine->probe));
    put_count(json, "psi-some-permille", engine->sample.psi_some_permille);
    put_bool(json, "psi-readable", engine->sample.psi);
    put_count(json, "psi-some-events", engine->counters.psi_some);
    put_count(json, "psi-full-events", engine->counters.psi_full);
    put_count(json, "delay-ms", o->delay_ms);
    put_count(json, "steered", o->steered);
    put_count(json, "postponed", o->postponed);
    put_bool(json, "exhausted", o->exhausted);
    put_bool(json, "dry-run", engine->dry_run);
    put_bool(json, "stopping", engine->stopping);
    put_count(json, "uptime-ms", (now_ns - engine->started_ns) / NS_PER_MS);
    put_count(json, "transitions", engine->counters.transitions);
    put_end(json, '}');
}

static void put_info(GString *json, const GuestInfo *info)
{
    put_bool(json, "offered", info->offered);
    put_bool(json, "negotiated", info->negotiated);
    put_bool(json, "inhibited", info->inhibited);
    put_ms(json, "requested-ms", info->requested_ms);
    put_ms(json, "applied-ms", info->applied_ms);
    put_ms(json, "lease-left-ms", info->lease_left_ms);
    put_count(json, "reports", info->reports);
    put_count(json, "reported-bytes", info->reported_bytes);
    put_count(json, "discarded-bytes", info->discarded_bytes);
}

static void put_vm(const Engine *engine, size_t i, GString *json)
{
    static const char *const migrations[] = {
        [POLICY_MIGRATION_NO] = "no",
        [POLICY_MIGRATION_YES] = "yes",
        [POLICY_MIGRATION_UNKNOWN] = "unknown",
    };
    const PolicyVmSample *s = &engine->samples[i];
    const Vm *vm = &engine->vms[i];
    const PolicyVm *state = &engine->states[i];

    g_string_append_c(json, '{');
    put_text(json, "name", vm->name);
    put_text(json, "backend", vm->guest->backend->class->name);
    put_bool(json, "up", vm->guest->up);
    put_text(json, "why", policy_why_name(state->why));
    if (!vm->guest->up) {
        put_text(json, "trouble", vm->guest->why ? vm->guest->why : "");
    }
    put_ms(json, "wanted-ms", state->wanted_ms);
    put_ms(json, "asked-ms", state->asked_ms);
    put_bytes(json, "host-bytes", s->host_bytes);
    put_bytes(json, "guest-used-bytes", s->guest_used_bytes);
    put_bytes(json, "backlog-bytes", state->backlog_bytes);
    put_count(json, "returned-bytes-per-s", vm->returned_bytes_per_s);
    put_count(json, "churn-permille", state->churn_permille);
    put_text(json, "migration", migrations[s->migration]);
    put_bool(json, "steer", s->steer);
    put_count(json, "weight", s->weight);
    put_count(json, "min-delay-ms", s->min_delay_ms);
    put_count(json, "max-delay-ms", s->max_delay_ms);
    if (vm->known) {
        put_info(json, &vm->info);
    }
}

void status_write(const Engine *engine, GString *json)
{
    g_string_append_c(json, '{');
    put_host(engine, json);
    g_string_append(json, ",\"vms\":[");
    for (size_t i = 0; i < engine->vm_count; i++) {
        put_vm(engine, i, json);
        put_end(json, '}');
        g_string_append_c(json, ',');
    }
    put_end(json, ']');
    g_string_append_c(json, '}');
}

void status_explain(const Engine *engine, size_t i, GString *json)
{
    const Vm *vm = &engine->vms[i];
    const PolicyVm *state = &engine->states[i];
    const PolicyVmSample *s = &engine->samples[i];
    int64_t now_ns = g_get_monotonic_time() * 1000;

    g_string_append_c(json, '{');
    put_host(engine, json);
    g_string_append(json, ",\"vm\":");
    put_vm(engine, i, json);
    put_count(json, "pid", vm->pid);
    put_count(json, "lease-ms", state->lease_ms);
    put_bool(json, "in-flight", state->in_flight);
    put_count(json, "back-off-ms", state->back_off_ms);
    put_count(json, "calm-delay-ms", state->calm_delay_ms);
    put_count(json, "churned-bytes", state->churned_total_bytes);
    if (s->pin_until_ns > now_ns) {
        put_ms(json, "pin-ms", s->pin_ms);
        put_count(json, "pin-left-ms",
                  s->pin_until_ns == INT64_MAX ? 0
                                               : (s->pin_until_ns - now_ns) / NS_PER_MS);
    }
    if (state->rest_until_ns > now_ns) {
        put_count(json, "rest-left-ms", (state->rest_until_ns - now_ns) / NS_PER_MS);
    }
    if (vm->known) {
        put_count(json, "answer-age-ms", (now_ns - vm->known_ns) / NS_PER_MS);
    }
    put_end(json, '}');
    g_string_append_c(json, '}');
}
