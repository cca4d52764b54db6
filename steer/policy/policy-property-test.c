/*
 * What holds for every history, over thousands of seeds
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <stdlib.h>
#include <string.h>

#include "fleet.h"

#define NONE POLICY_DELAY_NONE
#define SEEDS 2000

/* How many seeds: POLICY_SEEDS makes a longer run */
static uint32_t seeds(void)
{
    const char *text = g_getenv("POLICY_SEEDS");

    return text ? strtoul(text, NULL, 10) : SEEDS;
}

/* A world that does anything, and the same thing for the same seed */
typedef struct World {
    Fleet *fleet;
    GRand *host;
    GRand **guests; /* one each, whatever the others do */
} World;

static World world_new(size_t count, uint32_t seed)
{
    World w = {
        .fleet = fleet_new(count, seed),
        .host = g_rand_new_with_seed(seed),
        .guests = g_new0(GRand *, count),
    };

    w.fleet->config.no_effect_permille = seed % 2 ? 10 : 0;
    for (size_t i = 0; i < count; i++) {
        w.guests[i] = g_rand_new_with_seed(seed * 31 + i);
        w.fleet->samples[i].weight = g_rand_int_range(w.guests[i], 1, 10000);
    }
    return w;
}

static void world_free(World *w)
{
    for (size_t i = 0; i < w->fleet->count; i++) {
        g_rand_free(w->guests[i]);
    }
    g_free(w->guests);
    g_rand_free(w->host);
    fleet_free(w->fleet);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(World, world_free)

static bool chance(GRand *r, int one_in)
{
    return g_rand_int_range(r, 0, one_in) == 0;
}

static void world_host(World *w)
{
    static const uint64_t levels[] = {
        10, 45, 60, 95, 110, 130, 180, 260, 390, 510, 790, 1010, 3000,
    };
    PolicySample *s = &w->fleet->sample;

    if (chance(w->host, 20)) {
        int i = g_rand_int_range(w->host, 0, G_N_ELEMENTS(levels));

        fleet_set_memory(w->fleet, levels[i]);
    }
    s->free_bytes = s->available_bytes / g_rand_int_range(w->host, 1, 4);
    s->psi_some_permille = chance(w->host, 10) ? g_rand_int_range(w->host, 0, 1000) : 0;
    s->psi_some_events = chance(w->host, 60);
    s->psi_full_events = chance(w->host, 200);
    if (chance(w->host, 100)) {
        s->psi = !s->psi;
    }
    s->readable = s->readable ? !chance(w->host, 80) : chance(w->host, 5);
}

static void world_guest(World *w, size_t i)
{
    PolicyVmSample *s = &w->fleet->samples[i];
    FleetVm *q = &w->fleet->qemus[i];
    GRand *r = w->guests[i];
    uint64_t bytes = g_rand_int_range(r, 0, 200) * FLEET_MIB;

    if (chance(r, 4)) {
        s->discarded_bytes += bytes;
        s->host_bytes -= MIN(s->host_bytes, bytes / 2);
    } else if (chance(r, 4)) {
        s->host_bytes += bytes / 2;
    }
    switch (g_rand_int_range(r, 0, 300)) {
    case 0:
        q->manner = g_rand_int_range(r, FLEET_OBEYS, FLEET_REFUSES + 1);
        break;
    case 1:
        s->connected = !s->connected;
        break;
    case 2:
        s->negotiated = !s->negotiated;
        break;
    case 3:
        s->inhibited = !s->inhibited;
        break;
    case 4:
        s->steer = !s->steer;
        break;
    case 5:
        s->migration = g_rand_int_range(r, 0, 3);
        break;
    case 6:
        q->guest_ms = chance(r, 2) ? g_rand_int(r) % 5000 : NONE;
        break;
    case 7:
        s->pin_ms = g_rand_int_range(r, 0, 700000);
        s->pin_until_ns = w->fleet->now_ns + g_rand_int_range(r, 0, 60) * FLEET_S;
        break;
    case 8:
        q->requested_ms = g_rand_int_range(r, 0, 5000);
        q->lease_ns = w->fleet->now_ns + g_rand_int_range(r, 0, 60) * FLEET_S;
        break;
    default:
        if (chance(r, 10)) {
            q->manner = FLEET_OBEYS;
            s->connected = s->negotiated = s->steer = true;
            s->inhibited = false;
        }
        break;
    }
}

static void world_step(World *w, int64_t ms)
{
    world_host(w);
    for (size_t i = 0; i < w->fleet->count; i++) {
        world_guest(w, i);
    }
    fleet_step_after(w->fleet, ms);
}

static int64_t world_pause_ms(World *w)
{
    return chance(w->host, 200) ? g_rand_int_range(w->host, 1, 60000)
                                : g_rand_int_range(w->host, 1, 1000);
}

/* Nothing that goes out is out of bounds, and no lease is long for a short */
static void test_bounds(void)
{
    for (uint32_t seed = 0; seed < seeds(); seed++) {
        g_auto(World) w = world_new(4, seed);
        Fleet *f = w.fleet;

        for (int step = 0; step < 400; step++) {
            bool seen[4] = { false };

            world_step(&w, world_pause_ms(&w));
            for (size_t i = 0; i < f->outcome.commands; i++) {
                const PolicyCommand *c = &f->commands[i];

                g_assert_cmpuint(c->vm, <, 4);
                g_assert_false(seen[c->vm]);
                seen[c->vm] = true;
                g_assert_cmpuint(c->id, ==, f->vms[c->vm].id);
                if (c->action == POLICY_WITHDRAW) {
                    g_assert_cmpuint(c->delay_ms, ==, NONE);
                    g_assert_cmpuint(c->lease_ms, ==, 0);
                } else {
                    g_assert_cmpuint(c->delay_ms, <=, POLICY_DELAY_MS_MAX);
                    g_assert_cmpuint(c->lease_ms, ==,
                                     c->delay_ms < 2000 ? 10000 : 1800000);
                }
            }
            g_assert_cmpuint(f->host.hold_ms, >=, 10000);
            g_assert_cmpuint(f->host.hold_ms, <=, 300000);
            g_assert_cmpint(f->outcome.next_ns - f->now_ns, >=, 20 * FLEET_MS);
            g_assert_cmpint(f->outcome.next_ns - f->now_ns, <=, FLEET_S);
            for (size_t i = 0; i < 4; i++) {
                g_assert_cmpuint(f->vms[i].calm_delay_ms, >=, 10000);
                g_assert_cmpuint(f->vms[i].calm_delay_ms, <=, 60000);
                g_assert_cmpuint(f->vms[i].churn_permille, <=, 1000);
                g_assert_cmpuint(f->vms[i].backlog_bytes, <=, f->samples[i].host_bytes);
            }
        }
    }
}

/*
 * Up at once; down by one, after the hold; so within 10 s the direction
 * changes at most once.
 */
static void test_transitions(void)
{
    for (uint32_t seed = 0; seed < seeds(); seed++) {
        g_auto(World) w = world_new(0, seed);
        Fleet *f = w.fleet;
        int64_t last_up_ns = 0;

        for (int step = 0; step < 800; step++) {
            const PolicyOutcome *o = &f->outcome;
            int64_t entered_ns = f->host.entered_ns;
            uint32_t hold_ms = f->host.hold_ms;

            world_step(&w, world_pause_ms(&w) / 10 + 1);
            if (step && o->state > o->from) {
                last_up_ns = f->now_ns;
            } else if (step && o->state < o->from) {
                g_assert_cmpint(f->now_ns - last_up_ns, >=, 10 * FLEET_S);
                g_assert_cmpint(f->now_ns - entered_ns, >=, 10 * FLEET_S);
                if (o->reason != POLICY_REASON_BLIND) {
                    g_assert_cmpint(f->now_ns - entered_ns, >=,
                                    MIN(hold_ms, f->host.hold_ms) * FLEET_MS);
                    g_assert_cmpint(o->from - o->state, ==, 1);
                    g_assert_cmpint(f->now_ns - f->host.psi_ns, >=, 10 * FLEET_S);
                }
            }
            if (f->sample.readable && o->usable_bytes < o->floor_bytes) {
                g_assert_cmpint(o->state, ==, POLICY_URGENT);
            }
        }
    }
}

/* Delay 0 is in force for 5 s at most, and then not before 10 s have gone by */
static void test_zero_is_short(void)
{
    for (uint32_t seed = 0; seed < seeds(); seed++) {
        g_auto(World) w = world_new(0, seed);
        int64_t since_ns = 0;

        for (int step = 0; step < 800; step++) {
            world_step(&w, 1 + step % 50);
            if (w.fleet->outcome.delay_ms) {
                since_ns = 0;
            } else if (!since_ns) {
                since_ns = w.fleet->now_ns;
            } else {
                g_assert_cmpint(w.fleet->now_ns - since_ns, <, 5 * FLEET_S);
            }
        }
    }
}

/* Whatever has happened: once all is quiet, the host and every VM get calm. */
static void test_returns_to_calm(void)
{
    for (uint32_t seed = 0; seed < seeds(); seed++) {
        g_auto(World) w = world_new(3, seed);
        Fleet *f = w.fleet;

        for (int step = 0; step < 300; step++) {
            world_step(&w, world_pause_ms(&w));
        }
        for (size_t i = 0; i < 3; i++) {
            PolicyVmSample *s = &f->samples[i];

            f->qemus[i].manner = FLEET_OBEYS;
            f->qemus[i].guest_ms = NONE;
            s->connected = s->negotiated = s->steer = true;
            s->inhibited = false;
            s->migration = POLICY_MIGRATION_NO;
            s->pin_until_ns = 0;
        }
        f->sample.readable = true;
        f->sample.psi_some_events = f->sample.psi_full_events = 0;
        f->sample.psi_some_permille = 0;
        fleet_set_memory(f, 3000);
        /* The longest hold four times, and another writer's five minutes */
        fleet_run(f, 4 * 300000 + 10000 + 300000 + 60000);
        g_assert_cmpint(f->outcome.state, ==, POLICY_CALM);
        for (size_t i = 0; i < 3; i++) {
            uint32_t delay_ms = fleet_delay_ms(f, i, f->now_ns);

            g_assert_cmpint(f->vms[i].why, ==, POLICY_WHY_STATE);
            g_assert_cmpuint(delay_ms, >=, 10000);
            g_assert_cmpuint(delay_ms, <=, 60000);
        }
    }
}

/* The daemon dies at any instant: after the lease no guest is short. */
static void test_dead_daemon(void)
{
    for (uint32_t seed = 0; seed < seeds(); seed++) {
        g_auto(World) w = world_new(4, seed);
        Fleet *f = w.fleet;
        int steps = g_rand_int_range(w.host, 1, 300);

        for (int step = 0; step < steps; step++) {
            /* What somebody else asks for, he has to take back. */
            for (size_t i = 0; i < 4; i++) {
                f->qemus[i].guest_ms = NONE;
            }
            world_step(&w, world_pause_ms(&w) / 4 + 1);
        }
        for (size_t i = 0; i < 4; i++) {
            uint32_t delay_ms;

            f->qemus[i].guest_ms = NONE;
            delay_ms = fleet_delay_ms(f, i, f->now_ns + 10 * FLEET_S);
            if (f->qemus[i].lease_ns > f->now_ns + 10 * FLEET_S &&
                f->qemus[i].requested_ms == delay_ms && f->vms[i].asked_ms != delay_ms) {
                continue; /* another writer's, with a lease of his own */
            }
            g_assert_cmpuint(delay_ms, >=, 2000);
        }
    }
}

/* Stopping withdraws what can be withdrawn. */
static void test_stop(void)
{
    for (uint32_t seed = 0; seed < seeds() / 4; seed++) {
        g_auto(World) w = world_new(4, seed);
        Fleet *f = w.fleet;

        for (int step = 0; step < 100; step++) {
            world_step(&w, world_pause_ms(&w));
        }
        f->sample.stopping = true;
        for (size_t i = 0; i < 4; i++) {
            f->qemus[i].manner = FLEET_OBEYS;
            f->samples[i].migration = POLICY_MIGRATION_NO;
            f->samples[i].connected = true;
        }
        fleet_run(f, 61000);
        for (size_t i = 0; i < 4; i++) {
            g_assert_cmpuint(f->vms[i].asked_ms, ==, NONE);
        }
    }
}

static void assert_same_command(const PolicyCommand *a, const PolicyCommand *b)
{
    g_assert_true(!a == !b);
    if (a) {
        g_assert_cmpuint(a->id, ==, b->id);
        g_assert_cmpint(a->action, ==, b->action);
        g_assert_cmpuint(a->delay_ms, ==, b->delay_ms);
        g_assert_cmpuint(a->lease_ms, ==, b->lease_ms);
        g_assert_cmpuint(a->serial, ==, b->serial);
    }
}

/* All sizes times two, F and noise included: the same commands */
static void test_scale(void)
{
    for (uint32_t seed = 0; seed < seeds(); seed++) {
        g_auto(World) a = world_new(4, seed);
        g_auto(World) b = world_new(4, seed);
        PolicyVmSample *s;

        b.fleet->config.floor_mib *= 2;
        b.fleet->config.no_effect_mib *= 2;
        for (int step = 0; step < 200; step++) {
            int64_t ms = world_pause_ms(&a);

            world_pause_ms(&b);
            world_host(&a);
            world_host(&b);
            b.fleet->sample.available_bytes = 2 * a.fleet->sample.available_bytes;
            b.fleet->sample.free_bytes = 2 * a.fleet->sample.free_bytes;
            for (size_t i = 0; i < 4; i++) {
                world_guest(&a, i);
                world_guest(&b, i);
                s = &b.fleet->samples[i];
                s->host_bytes = 2 * a.fleet->samples[i].host_bytes;
                s->discarded_bytes = 2 * a.fleet->samples[i].discarded_bytes;
                s->guest_used_bytes = 2 * a.fleet->samples[i].guest_used_bytes;
            }
            fleet_step_after(a.fleet, ms);
            fleet_step_after(b.fleet, ms);
            g_assert_cmpint(a.fleet->outcome.state, ==, b.fleet->outcome.state);
            g_assert_cmpuint(a.fleet->outcome.commands, ==, b.fleet->outcome.commands);
            for (size_t i = 0; i < a.fleet->outcome.commands; i++) {
                assert_same_command(&a.fleet->commands[i], &b.fleet->commands[i]);
            }
        }
    }
}

static void swap_vms(Fleet *f, size_t i, size_t j)
{
    PolicyVm vm = f->vms[i];
    PolicyVmSample sample = f->samples[i];
    FleetVm qemu = f->qemus[i];

    f->vms[i] = f->vms[j];
    f->vms[j] = vm;
    f->samples[i] = f->samples[j];
    f->samples[j] = sample;
    f->qemus[i] = f->qemus[j];
    f->qemus[j] = qemu;
}

/* The order in which VMs are listed: the same commands in the same order */
static void test_order_of_listing(void)
{
    enum { COUNT = 5 };

    for (uint32_t seed = 0; seed < seeds(); seed++) {
        g_auto(World) a = world_new(COUNT, seed);
        g_auto(World) b = world_new(COUNT, seed);

        /* So that the bucket has to choose */
        a.fleet->config.commands_per_s = b.fleet->config.commands_per_s = 3;
        for (int step = 0; step < 200; step++) {
            int64_t ms = world_pause_ms(&a);

            world_pause_ms(&b);
            world_host(&a);
            world_host(&b);
            for (size_t i = 0; i < COUNT; i++) {
                world_guest(&a, i);
                world_guest(&b, i);
            }
            for (size_t i = 0; i < COUNT / 2; i++) {
                swap_vms(b.fleet, i, COUNT - 1 - i);
            }
            fleet_step_after(a.fleet, ms);
            fleet_step_after(b.fleet, ms);
            for (size_t i = 0; i < COUNT / 2; i++) {
                swap_vms(b.fleet, i, COUNT - 1 - i);
            }
            g_assert_cmpuint(a.fleet->outcome.commands, ==, b.fleet->outcome.commands);
            for (size_t i = 0; i < a.fleet->outcome.commands; i++) {
                assert_same_command(&a.fleet->commands[i], &b.fleet->commands[i]);
            }
        }
    }
}

/*
 * One guest lies about all that a guest can lie about: its use, its delay, the
 * feature, reports of the same memory over and over. The others get the same
 * commands at the same instants, in the same order.
 */
static void test_liar(void)
{
    enum { COUNT = 5 };

    for (uint32_t seed = 0; seed < seeds(); seed++) {
        g_auto(World) a = world_new(COUNT, seed);
        g_auto(World) b = world_new(COUNT, seed);
        g_autoptr(GRand) lies = g_rand_new_with_seed(~seed);

        for (int step = 0; step < 200; step++) {
            int64_t ms = world_pause_ms(&a);
            PolicyVmSample *liar = &b.fleet->samples[0];
            size_t at = 0;

            world_pause_ms(&b);
            world_host(&a);
            world_host(&b);
            for (size_t i = 0; i < COUNT; i++) {
                world_guest(&a, i);
                world_guest(&b, i);
            }
            liar->guest_used_bytes = g_rand_int(lies) * UINT64_C(0x100000001);
            liar->discarded_bytes += g_rand_int(lies);
            liar->negotiated = !chance(lies, 50);
            b.fleet->qemus[0].guest_ms = chance(lies, 2) ? g_rand_int(lies) : NONE;
            fleet_step_after(a.fleet, ms);
            fleet_step_after(b.fleet, ms);
            g_assert_cmpint(a.fleet->outcome.state, ==, b.fleet->outcome.state);
            for (size_t i = 0; i < a.fleet->outcome.commands; i++) {
                if (a.fleet->commands[i].vm == 0) {
                    continue;
                }
                while (at < b.fleet->outcome.commands && b.fleet->commands[at].vm == 0) {
                    at++;
                }
                g_assert_cmpuint(at, <, b.fleet->outcome.commands);
                assert_same_command(&a.fleet->commands[i], &b.fleet->commands[at++]);
            }
            while (at < b.fleet->outcome.commands) {
                g_assert_cmpuint(b.fleet->commands[at++].vm, ==, 0);
            }
        }
    }
}

/* A pure function: the same history, the same commands, to the last bit */
static void test_same_again(void)
{
    for (uint32_t seed = 0; seed < seeds() / 4; seed++) {
        g_auto(World) a = world_new(4, seed);
        g_auto(World) b = world_new(4, seed);

        for (int step = 0; step < 200; step++) {
            int64_t ms = world_pause_ms(&a);

            world_pause_ms(&b);
            world_step(&a, ms);
            world_step(&b, ms);
        }
        g_assert_cmpmem(&a.fleet->host, sizeof(PolicyHost), &b.fleet->host,
                        sizeof(PolicyHost));
        g_assert_cmpmem(a.fleet->vms, 4 * sizeof(PolicyVm), b.fleet->vms,
                        4 * sizeof(PolicyVm));
    }
}

/* Over any time, no more commands than the bucket gives */
static void test_rate(void)
{
    for (uint32_t seed = 0; seed < seeds() / 10; seed++) {
        g_auto(World) w = world_new(20, seed);
        Fleet *f = w.fleet;
        int64_t start_ns = f->now_ns;

        f->config.commands_per_s = 5;
        for (int step = 0; step < 500; step++) {
            world_step(&w, 1 + step % 100);
            g_assert_cmpfloat(f->commands_total, <=,
                              20 + 5 * (f->now_ns - start_ns) / 1e9);
        }
    }
}

/* Numbers that make no sense do no harm: the sanitizers look. */
static void test_garbage(void)
{
    for (uint32_t seed = 0; seed < seeds(); seed++) {
        g_auto(World) w = world_new(2, seed);
        Fleet *f = w.fleet;
        uint64_t *words = (uint64_t *)f->samples;
        static const uint64_t odd[] = {
            0, 1, INT64_MAX, UINT64_MAX, UINT64_MAX / 2 + 1, UINT64_MAX / 100, UINT32_MAX,
        };

        f->frozen = true;
        for (int step = 0; step < 100; step++) {
            world_step(&w, world_pause_ms(&w));
            for (size_t i = 0; i < 2; i++) {
                PolicyVmSample *s = &f->samples[i];
                uint64_t any = odd[g_rand_int_range(w.host, 0, 7)];

                s->query_sent_ns = f->now_ns;
                s->host_bytes = any;
                s->discarded_bytes = words[0] ^ any * 3;
                s->guest_used_bytes = any / 2;
                s->applied_ms = s->requested_ms = s->min_delay_ms = any;
                s->max_delay_ms = any >> 3;
                s->weight = any;
                s->reply_serial = any;
                s->reply = any % 5;
                s->pin_ms = any;
                s->pin_until_ns = any;
            }
            f->sample.available_bytes = odd[g_rand_int_range(w.host, 0, 7)];
            f->sample.free_bytes = odd[g_rand_int_range(w.host, 0, 7)];
            f->sample.ram_bytes = odd[g_rand_int_range(w.host, 0, 7)];
            f->sample.high_watermark_bytes = odd[g_rand_int_range(w.host, 0, 7)];
            f->sample.psi_some_permille = odd[g_rand_int_range(w.host, 0, 7)];
            f->config.floor_mib = step % 2 ? 0 : 1024;
        }
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/property/bounds", test_bounds);
    g_test_add_func("/property/transitions", test_transitions);
    g_test_add_func("/property/zero-is-short", test_zero_is_short);
    g_test_add_func("/property/returns-to-calm", test_returns_to_calm);
    g_test_add_func("/property/dead-daemon", test_dead_daemon);
    g_test_add_func("/property/stop", test_stop);
    g_test_add_func("/property/scale", test_scale);
    g_test_add_func("/property/order-of-listing", test_order_of_listing);
    g_test_add_func("/property/liar", test_liar);
    g_test_add_func("/property/same-again", test_same_again);
    g_test_add_func("/property/rate", test_rate);
    g_test_add_func("/property/garbage", test_garbage);
    return g_test_run();
}
