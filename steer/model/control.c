/*
 * Who sets the report delay: nobody, PSI alone, or the law
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <stdlib.h>

#include "model-internal.h"

#define PSI_ONLY_CALM_MS 30000
#define PSI_ONLY_SHORT_MS 50
#define OWN_DELAY_MS 2000
#define PSI_ONLY_HOLD_NS (10 * MODEL_S)

static void control_all(Model *m, uint32_t delay_ms)
{
    for (size_t i = 0; i < m->count; i++) {
        guest_set_delay(&m->guests[i], delay_ms, m->now_ns);
        model_guest_moved(m, &m->guests[i]);
    }
}

/* The law's sample */

static void control_query(Model *m, size_t i)
{
    const ModelGuest *g = &m->guests[i];
    PolicyVmSample *s = &m->samples[i];

    s->query_sent_ns = m->now_ns;
    s->requested_ms = m->qemus[i].requested_ms;
    s->applied_ms = g->delay_ms;
    s->discarded_bytes = g->discarded_bytes;
    s->host_bytes = g->used_bytes + g->freed_bytes;
    s->guest_used_bytes = g->used_bytes;
}

/* The stall of the last second or more, from the total */
static uint32_t control_some_permille(Model *m)
{
    int64_t elapsed_ns = m->now_ns - m->share_ns;

    if (elapsed_ns >= MODEL_S) {
        m->share_permille = 1000 * (m->some_ns - m->share_some_ns) / elapsed_ns;
        m->share_ns = m->now_ns;
        m->share_some_ns = m->some_ns;
    }
    return m->share_permille;
}

/* Calm, and what it was entered with has long been sent */
static bool control_is_calm(const Model *m)
{
    return m->outcome.state == POLICY_CALM &&
           m->now_ns - m->policy.entered_ns >= 10 * MODEL_S;
}

static void control_count(Model *m)
{
    PolicyState from = m->outcome.from;
    int direction = m->outcome.state - from;
    uint32_t opposite = 0;

    m->result->state_s[from] += (double)(m->now_ns - m->last_step_ns) / MODEL_S;
    if (control_is_calm(m)) {
        m->calm_s += (double)(m->now_ns - m->last_step_ns) / MODEL_S;
    }
    m->last_step_ns = m->now_ns;
    if (!direction) {
        return;
    }
    for (int i = MODEL_HISTORY - 1; i > 0; i--) {
        m->changed_ns[i] = m->changed_ns[i - 1];
        m->direction[i] = m->direction[i - 1];
    }
    m->changed_ns[0] = m->now_ns;
    m->direction[0] = direction;
    for (int i = 0; i + 1 < MODEL_HISTORY && m->direction[i + 1] &&
                    m->now_ns - m->changed_ns[i + 1] < 10 * MODEL_S;
         i++) {
        opposite += (m->direction[i] > 0) != (m->direction[i + 1] > 0);
    }
    m->result->transitions++;
    m->result->opposite_in_10s = MAX(m->result->opposite_in_10s, opposite);
}

static void control_request(Model *m, size_t i, uint32_t delay_ms, int64_t lease_ns)
{
    ModelGuest *g = &m->guests[i];

    m->qemus[i].requested_ms = delay_ms;
    m->qemus[i].lease_ns = lease_ns;
    guest_set_delay(g, delay_ms == POLICY_DELAY_NONE ? OWN_DELAY_MS : delay_ms,
                    m->now_ns);
    model_guest_moved(m, g);
}

/* A command takes 1 to 2 ms to arrive: here, none. */
static void control_execute(Model *m, const PolicyCommand *c)
{
    control_request(m, c->vm, c->delay_ms, m->now_ns + c->lease_ms * MODEL_MS);
    m->samples[c->vm].reply_serial = c->serial;
    m->samples[c->vm].reply = POLICY_REPLY_OK;
    m->calm_commands[c->vm] += control_is_calm(m);
    m->result->commands++;
}

/* Nobody else sets a delay here: a VM that is taken to have another writer
 * shows a fault of the law, or of this. */
static void control_count_writers(Model *m)
{
    for (size_t i = 0; i < m->count; i++) {
        m->result->other_writers += m->vms[i].phase != POLICY_WHY_STATE;
    }
}

static void control_law(Model *m)
{
    const PolicyConfig *config = &m->config->policy;
    int64_t old_ns = policy_query_interval_ms(config, m->policy.state) * MODEL_MS;
    PolicySample sample = {
        .readable = true,
        .ram_bytes = m->host.ram_bytes,
        .available_bytes = model_available_bytes(&m->host),
        .free_bytes = m->host.free_bytes,
        .high_watermark_bytes = m->host.high_bytes,
        .psi = true,
        .psi_some_events = m->some_events,
        .psi_full_events = m->full_events,
        .psi_some_permille = control_some_permille(m),
        .vms = m->samples,
        .vm_count = m->count,
    };
    size_t count;

    for (size_t i = 0; i < m->count; i++) {
        if (m->qemus[i].requested_ms != POLICY_DELAY_NONE &&
            m->now_ns >= m->qemus[i].lease_ns) {
            control_request(m, i, POLICY_DELAY_NONE, 0);
        }
        if (m->now_ns - m->samples[i].query_sent_ns >= old_ns ||
            !m->samples[i].query_sent_ns) {
            control_query(m, i);
        }
    }
    count = policy_step(config, &m->policy, m->vms, &sample, m->now_ns, m->commands,
                        &m->outcome);
    for (size_t i = 0; i < count; i++) {
        control_execute(m, &m->commands[i]);
    }
    m->some_events = m->full_events = 0;
    control_count_writers(m);
    control_count(m);
    m->control_ns = m->outcome.next_ns;
}

void model_control_step(Model *m)
{
    if (m->config->control == MODEL_STEER) {
        control_law(m);
    } else {
        /* PSI alone: its hold is over. */
        control_all(m, PSI_ONLY_CALM_MS);
        m->control_ns = MODEL_NEVER;
    }
}

void model_control_psi(Model *m)
{
    if (m->config->control == MODEL_STEER) {
        m->control_ns = m->now_ns;
    } else if (m->config->control == MODEL_PSI_ONLY) {
        control_all(m, PSI_ONLY_SHORT_MS);
        m->control_ns = m->now_ns + PSI_ONLY_HOLD_NS;
    }
}

static void control_law_start(Model *m)
{
    m->vms = calloc(m->count, sizeof(*m->vms));
    m->samples = calloc(m->count, sizeof(*m->samples));
    m->commands = calloc(m->count, sizeof(*m->commands));
    m->qemus = calloc(m->count, sizeof(*m->qemus));
    m->calm_commands = calloc(m->count, sizeof(*m->calm_commands));
    policy_host_init(&m->policy, &m->config->policy, m->config->seed);
    for (size_t i = 0; i < m->count; i++) {
        policy_vm_init(&m->vms[i], &m->config->policy, i + 1);
        m->qemus[i].requested_ms = POLICY_DELAY_NONE;
        m->samples[i] = (PolicyVmSample){
            .connected = true,
            .offered = true,
            .negotiated = true,
            .steer = true,
        };
    }
    m->last_step_ns = m->now_ns;
    m->control_ns = m->now_ns;
}

void model_control_start(Model *m)
{
    m->control_ns = MODEL_NEVER;
    switch (m->config->control) {
    case MODEL_STEER:
        control_law_start(m);
        break;
    case MODEL_PSI_ONLY:
        control_all(m, PSI_ONLY_CALM_MS);
        break;
    default:
        control_all(m, m->config->fixed_delay_ms);
        break;
    }
}

void model_control_end(Model *m)
{
    double calm_h = m->calm_s / 3600;

    if (m->config->control != MODEL_STEER) {
        return;
    }
    for (size_t i = 0; i < m->count && calm_h > 1 / 6.0; i++) {
        m->result->calm_commands_per_hour =
            MAX(m->result->calm_commands_per_hour,
                (uint32_t)(m->calm_commands[i] / calm_h + 0.5));
    }
    free(m->vms);
    free(m->samples);
    free(m->commands);
    free(m->qemus);
    free(m->calm_commands);
}
