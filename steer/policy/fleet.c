/*
 * Fake QEMUs for the law's tests
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "fleet.h"

Fleet *fleet_new(size_t count, uint64_t seed)
{
    Fleet *f = g_new0(Fleet, 1);

    policy_config_init(&f->config);
    f->config.floor_mib = 1024;
    f->config.no_effect_permille = 0;
    policy_host_init(&f->host, &f->config, seed);
    f->count = count;
    f->vms = g_new0(PolicyVm, count);
    f->samples = g_new0(PolicyVmSample, count);
    f->qemus = g_new0(FleetVm, count);
    f->commands = g_new0(PolicyCommand, count);
    for (size_t i = 0; i < count; i++) {
        policy_vm_init(&f->vms[i], &f->config, 1000 + i);
        f->qemus[i] = (FleetVm){
            .own_ms = 2000,
            .guest_ms = POLICY_DELAY_NONE,
            .requested_ms = POLICY_DELAY_NONE,
        };
        f->samples[i] = (PolicyVmSample){
            .connected = true,
            .offered = true,
            .negotiated = true,
            .steer = true,
            .host_bytes = 4 * FLEET_GIB,
            .guest_used_bytes = 2 * FLEET_GIB,
        };
    }
    f->sample = (PolicySample){
        .readable = true,
        .ram_bytes = 64 * FLEET_GIB,
        .psi = true,
        .vms = f->samples,
        .vm_count = count,
    };
    f->now_ns = 1000 * FLEET_S;
    fleet_set_memory(f, 1600);
    return f;
}

void fleet_free(Fleet *f)
{
    g_free(f->vms);
    g_free(f->samples);
    g_free(f->qemus);
    g_free(f->commands);
    g_free(f);
}

void fleet_set_memory(Fleet *f, uint64_t percent)
{
    f->sample.available_bytes = FLEET_GIB / 100 * percent;
    f->sample.free_bytes = f->sample.available_bytes;
}

static void qemu_end_lease(FleetVm *q, int64_t now_ns)
{
    if (q->requested_ms != POLICY_DELAY_NONE && now_ns >= q->lease_ns) {
        q->requested_ms = POLICY_DELAY_NONE;
    }
}

uint32_t fleet_delay_ms(Fleet *f, size_t index, int64_t now_ns)
{
    FleetVm *q = &f->qemus[index];

    qemu_end_lease(q, now_ns);
    if (q->guest_ms != POLICY_DELAY_NONE) {
        return q->guest_ms;
    }
    return q->requested_ms == POLICY_DELAY_NONE ? q->own_ms : q->requested_ms;
}

static void fleet_query(Fleet *f, size_t index)
{
    PolicyVmSample *s = &f->samples[index];

    if (f->frozen || f->qemus[index].manner == FLEET_STUCK) {
        return;
    }
    s->query_sent_ns = f->now_ns;
    s->applied_ms = fleet_delay_ms(f, index, f->now_ns);
    s->requested_ms = f->qemus[index].requested_ms;
}

static void fleet_execute(Fleet *f, const PolicyCommand *c)
{
    FleetVm *q = &f->qemus[c->vm];
    PolicyVmSample *s = &f->samples[c->vm];

    q->commands++;
    f->commands_total++;
    if (q->manner == FLEET_STUCK) {
        return;
    }
    if (q->manner != FLEET_REFUSES) {
        q->sets += q->requested_ms != c->delay_ms;
        q->requested_ms = c->delay_ms;
        q->lease_ns = f->now_ns + c->lease_ms * FLEET_MS;
    }
    if (q->manner != FLEET_SILENT) {
        s->reply_serial = c->serial;
        s->reply = q->manner == FLEET_REFUSES ? POLICY_REPLY_ERROR : POLICY_REPLY_OK;
    }
}

void fleet_step(Fleet *f)
{
    size_t count;

    for (size_t i = 0; i < f->count; i++) {
        fleet_query(f, i);
    }
    count = policy_step(&f->config, &f->host, f->vms, &f->sample, f->now_ns, f->commands,
                        &f->outcome);
    g_assert_cmpuint(count, ==, f->outcome.commands);
    for (size_t i = 0; i < count; i++) {
        fleet_execute(f, &f->commands[i]);
    }
    f->sample.psi_some_events = 0;
    f->sample.psi_full_events = 0;
}

void fleet_step_after(Fleet *f, int64_t ms)
{
    f->now_ns += ms * FLEET_MS;
    fleet_step(f);
}

void fleet_run(Fleet *f, int64_t ms)
{
    int64_t end_ns = f->now_ns + ms * FLEET_MS;

    while (f->now_ns < end_ns) {
        if (f->outcome.next_ns > f->now_ns) {
            f->now_ns = MIN(f->outcome.next_ns, end_ns);
        }
        fleet_step(f);
    }
}

const PolicyCommand *fleet_command(const Fleet *f, size_t index)
{
    for (size_t i = 0; i < f->outcome.commands; i++) {
        if (f->commands[i].vm == index) {
            return &f->commands[i];
        }
    }
    return NULL;
}
