/*
 * The law, row by row
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <string.h>

#include "fleet.h"

#define NONE POLICY_DELAY_NONE

/* A calm host whose VMs have taken their first commands */
static Fleet *calm_fleet(size_t count)
{
    Fleet *f = fleet_new(count, 7);

    fleet_run(f, 3000);
    g_assert_cmpint(f->outcome.state, ==, POLICY_CALM);
    return f;
}

static void assert_state(const Fleet *f, PolicyState state)
{
    g_assert_cmpstr(policy_state_name(f->outcome.state), ==, policy_state_name(state));
}

/* The host's state */

static void test_bands(void)
{
    static const struct {
        uint64_t percent;
        uint32_t some, full;
        bool psi;
        PolicyState state;
        PolicyReason reason;
        uint32_t delay_ms;
    } rows[] = {
        { 5000, 0, 0, true, POLICY_CALM, POLICY_REASON_AVAILABLE, 30000 },
        { 800, 0, 0, true, POLICY_CALM, POLICY_REASON_AVAILABLE, 30000 },
        { 799, 0, 0, true, POLICY_EASY, POLICY_REASON_AVAILABLE, 10000 },
        { 400, 0, 0, true, POLICY_EASY, POLICY_REASON_AVAILABLE, 10000 },
        { 399, 0, 0, true, POLICY_WATCH, POLICY_REASON_AVAILABLE, 2000 },
        { 200, 0, 0, true, POLICY_WATCH, POLICY_REASON_AVAILABLE, 2000 },
        { 199, 0, 0, true, POLICY_TIGHT, POLICY_REASON_AVAILABLE, 500 },
        { 100, 0, 0, true, POLICY_TIGHT, POLICY_REASON_AVAILABLE, 500 },
        { 99, 0, 0, true, POLICY_URGENT, POLICY_REASON_AVAILABLE, 50 },
        { 50, 0, 0, true, POLICY_URGENT, POLICY_REASON_AVAILABLE, 50 },
        { 49, 0, 0, true, POLICY_URGENT, POLICY_REASON_AVAILABLE, 0 },
        { 0, 0, 0, true, POLICY_URGENT, POLICY_REASON_AVAILABLE, 0 },
        { 800, 1, 0, true, POLICY_WATCH, POLICY_REASON_PSI_SOME, 2000 },
        { 799, 1, 0, true, POLICY_URGENT, POLICY_REASON_PSI_SOME, 50 },
        { 5000, 0, 1, true, POLICY_URGENT, POLICY_REASON_PSI_FULL, 50 },
        { 5000, 3, 3, false, POLICY_CALM, POLICY_REASON_AVAILABLE, 30000 },
        { 150, 3, 3, false, POLICY_TIGHT, POLICY_REASON_AVAILABLE, 500 },
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(Fleet) f = fleet_new(1, 1);

        g_test_message("row %zu", i);
        /* F divides by 100 here, so that the rows hit the bounds. */
        f->config.floor_mib = 100;
        f->sample.available_bytes = f->sample.free_bytes = rows[i].percent * FLEET_MIB;
        f->sample.psi = rows[i].psi;
        f->sample.psi_some_events = rows[i].some;
        f->sample.psi_full_events = rows[i].full;
        fleet_step(f);
        assert_state(f, rows[i].state);
        g_assert_cmpint(f->outcome.reason, ==, rows[i].reason);
        g_assert_cmpuint(f->outcome.delay_ms, ==, rows[i].delay_ms);
        g_assert_cmpuint(f->commands[0].delay_ms, ==, rows[i].delay_ms);
        g_assert_cmpuint(f->commands[0].lease_ms, ==,
                         rows[i].delay_ms < 2000 ? 10000 : 1800000);
    }
}

static void test_floor(void)
{
    static const struct {
        uint64_t ram_gib, watermarks_mib;
        uint32_t floor_mib;
        uint64_t expect_mib;
    } rows[] = {
        { 8, 100, 0, 899 },  { 28, 0, 0, 899 },     { 128, 0, 0, 899 + 1024 },
        { 28, 450, 0, 900 }, { 28, 450, 300, 300 },
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        PolicyConfig config;
        PolicySample sample = {
            .ram_bytes = rows[i].ram_gib * FLEET_GIB,
            .high_watermark_bytes = rows[i].watermarks_mib * FLEET_MIB,
        };

        policy_config_init(&config);
        config.floor_mib = rows[i].floor_mib;
        g_assert_cmpuint(policy_floor_bytes(&config, &sample) / FLEET_MIB, ==,
                         rows[i].expect_mib);
    }
}

static void test_discount(void)
{
    static const struct {
        bool psi;
        uint32_t permille;
        uint64_t free, available, expect;
    } rows[] = {
        { true, 0, 300, 1000, 1000 },    { true, 50, 300, 1000, 1000 },
        { true, 225, 300, 1000, 650 },   { true, 400, 300, 1000, 300 },
        { true, 1000, 300, 1000, 300 },  { false, 1000, 300, 1000, 1000 },
        { true, 400, 1200, 1000, 1000 },
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        PolicyConfig config;
        PolicySample sample = {
            .psi = rows[i].psi,
            .psi_some_permille = rows[i].permille,
            .free_bytes = rows[i].free,
            .available_bytes = rows[i].available,
        };

        policy_config_init(&config);
        g_assert_cmpuint(policy_usable_bytes(&config, &sample), ==, rows[i].expect);
    }
}

/* Memory falls by @mib_per_s from 16 GiB */
static void fall(Fleet *f, uint64_t mib_per_s, int64_t ms)
{
    for (int64_t t = 0; t < ms; t += 100) {
        f->sample.available_bytes -= mib_per_s * FLEET_MIB / 10;
        f->sample.free_bytes = f->sample.available_bytes;
        fleet_step_after(f, 100);
    }
}

static void test_time_to_empty(void)
{
    g_autoptr(Fleet) slow = calm_fleet(1);
    g_autoptr(Fleet) tight = calm_fleet(1);
    g_autoptr(Fleet) urgent = calm_fleet(1);

    fall(slow, 512, 3000);
    assert_state(slow, POLICY_CALM);

    fall(tight, 1200, 3000);
    assert_state(tight, POLICY_TIGHT);
    g_assert_cmpint(tight->outcome.reason, ==, POLICY_REASON_TTE);
    g_assert_cmpint(tight->outcome.tte_ms, <, 15000);

    fall(urgent, 3000, 2000);
    assert_state(urgent, POLICY_URGENT);
    g_assert_cmpint(urgent->outcome.reason, ==, POLICY_REASON_TTE);
    g_assert_cmpint(urgent->outcome.tte_ms, <, 5000);
}

/* A discount that comes with PSI is no memory that went away. */
static void test_discount_is_no_fall(void)
{
    g_autoptr(Fleet) f = calm_fleet(1);

    f->sample.free_bytes = f->sample.available_bytes / 2 + FLEET_GIB;
    fleet_step_after(f, 1000);
    f->sample.psi_some_permille = 400;
    fleet_step_after(f, 20);
    g_assert_cmpint(f->outcome.tte_ms, ==, POLICY_TTE_MS_NEVER);
    assert_state(f, POLICY_CALM);
}

static void test_up_at_once(void)
{
    g_autoptr(Fleet) f = calm_fleet(1);

    fleet_set_memory(f, 90);
    fleet_step_after(f, 20);
    assert_state(f, POLICY_URGENT);
    g_assert_cmpuint(fleet_delay_ms(f, 0, f->now_ns), ==, 50);
}

/* Down one step at a time, each after the hold and above 1.25 x its bound */
static void test_down(void)
{
    static const struct {
        uint64_t bound;
        PolicyState from, to;
    } rows[] = {
        { 100, POLICY_URGENT, POLICY_TIGHT },
        { 200, POLICY_TIGHT, POLICY_WATCH },
        { 400, POLICY_WATCH, POLICY_EASY },
        { 800, POLICY_EASY, POLICY_CALM },
    };
    g_autoptr(Fleet) f = fleet_new(1, 1);

    fleet_set_memory(f, 60);
    fleet_step(f);
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        assert_state(f, rows[i].from);
        fleet_set_memory(f, rows[i].bound * 124 / 100);
        fleet_run(f, 11000);
        assert_state(f, rows[i].from);
        g_assert_cmpint(f->outcome.held_by, ==, POLICY_HOLD_HEADROOM);
        fleet_set_memory(f, rows[i].bound * 126 / 100);
        fleet_step_after(f, 10);
        assert_state(f, rows[i].to);
        g_assert_cmpint(f->outcome.reason, ==, POLICY_REASON_RELAXED);
    }
}

static void test_hold(void)
{
    g_autoptr(Fleet) f = fleet_new(1, 1);

    fleet_set_memory(f, 60);
    fleet_step(f);
    fleet_set_memory(f, 5000);
    for (int state = POLICY_TIGHT; state >= POLICY_CALM; state--) {
        fleet_step_after(f, 9999);
        assert_state(f, state + 1);
        g_assert_cmpint(f->outcome.held_by, ==, POLICY_HOLD_TIME);
        g_assert_cmpint(f->outcome.hold_left_ms, ==, 1);
        fleet_step_after(f, 1);
        assert_state(f, state);
    }
}

/* The hold is counted from the last time that the state was called for. */
static void test_hold_starts_anew(void)
{
    g_autoptr(Fleet) f = fleet_new(1, 1);

    fleet_set_memory(f, 150);
    fleet_step(f);
    fleet_step_after(f, 60000);
    fleet_set_memory(f, 5000);
    fleet_step_after(f, 9000);
    assert_state(f, POLICY_TIGHT);
    fleet_step_after(f, 1000);
    assert_state(f, POLICY_WATCH);
}

/* Hysteresis is that of the state, whatever it was entered by. */
static void test_hysteresis_after_psi(void)
{
    g_autoptr(Fleet) f = fleet_new(1, 1);

    fleet_set_memory(f, 120);
    f->sample.psi_full_events = 1;
    fleet_step(f);
    assert_state(f, POLICY_URGENT);
    fleet_run(f, 60000);
    assert_state(f, POLICY_URGENT);
    fleet_set_memory(f, 130);
    fleet_run(f, 1000);
    assert_state(f, POLICY_TIGHT);
}

static void test_psi_veto(void)
{
    g_autoptr(Fleet) f = fleet_new(1, 1);

    /* Some while there is a lot: WATCH, but no step down from TIGHT. */
    fleet_set_memory(f, 150);
    fleet_step(f);
    fleet_set_memory(f, 5000);
    fleet_step_after(f, 9000);
    f->sample.psi_some_events = 1;
    fleet_step_after(f, 500);
    fleet_step_after(f, 9900);
    assert_state(f, POLICY_TIGHT);
    g_assert_cmpint(f->outcome.held_by, ==, POLICY_HOLD_PSI);
    fleet_step_after(f, 100);
    assert_state(f, POLICY_WATCH);
}

static void urgent_once(Fleet *f, int64_t quiet_ms)
{
    fleet_set_memory(f, 90);
    fleet_step_after(f, 20);
    assert_state(f, POLICY_URGENT);
    fleet_set_memory(f, 5000);
    fleet_run(f, quiet_ms);
}

static void test_third_urgent(void)
{
    g_autoptr(Fleet) f = calm_fleet(1);

    urgent_once(f, 60000);
    urgent_once(f, 60000);
    g_assert_cmpuint(f->outcome.hold_ms, ==, 10000);
    urgent_once(f, 100000);
    g_assert_cmpuint(f->outcome.hold_ms, ==, 20000);
    for (int i = 0; i < 8; i++) {
        urgent_once(f, MIN(f->outcome.hold_ms, 299000) + 500);
    }
    g_assert_cmpuint(f->outcome.hold_ms, ==, 300000);
    fleet_run(f, 1900000);
    g_assert_cmpuint(f->outcome.hold_ms, ==, 37500);
    fleet_run(f, 1900000);
    g_assert_cmpuint(f->outcome.hold_ms, ==, 10000);
}

static void test_three_urgents_apart(void)
{
    g_autoptr(Fleet) f = calm_fleet(1);

    for (int i = 0; i < 5; i++) {
        urgent_once(f, 310000);
    }
    g_assert_cmpuint(f->outcome.hold_ms, ==, 10000);
}

static void test_zero(void)
{
    g_autoptr(Fleet) f = calm_fleet(1);

    fleet_set_memory(f, 40);
    fleet_step_after(f, 20);
    g_assert_cmpuint(f->outcome.delay_ms, ==, 0);
    fleet_run(f, 4990);
    g_assert_cmpuint(fleet_delay_ms(f, 0, f->now_ns), ==, 0);
    fleet_run(f, 50);
    g_assert_cmpuint(fleet_delay_ms(f, 0, f->now_ns), ==, 50);
    /* Not again in the same URGENT */
    fleet_set_memory(f, 60);
    fleet_run(f, 1000);
    fleet_set_memory(f, 40);
    fleet_run(f, 1000);
    g_assert_cmpuint(f->outcome.delay_ms, ==, 50);
    /* But in the next */
    fleet_set_memory(f, 5000);
    fleet_run(f, 11000);
    assert_state(f, POLICY_TIGHT);
    fleet_set_memory(f, 40);
    fleet_step_after(f, 20);
    g_assert_cmpuint(f->outcome.delay_ms, ==, 0);
}

static void test_tick(void)
{
    static const struct {
        uint64_t percent;
        int64_t ms;
    } rows[] = {
        { 30, 20 },   { 99, 20 },    { 150, 20 },    { 200, 20 },
        { 500, 510 }, { 800, 1000 }, { 9000, 1000 },
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(Fleet) f = fleet_new(0, 1);

        fleet_set_memory(f, rows[i].percent);
        fleet_step(f);
        g_assert_cmpint(ABS((f->outcome.next_ns - f->now_ns) / FLEET_MS - rows[i].ms), <=,
                        1);
    }
}

static void test_blind(void)
{
    g_autoptr(Fleet) f = calm_fleet(2);

    /* Short, then blind: kept for its hold, which a lease is as long as */
    fleet_set_memory(f, 90);
    fleet_step_after(f, 20);
    f->sample.readable = false;
    fleet_run(f, 9900);
    assert_state(f, POLICY_URGENT);
    fleet_run(f, 200);
    assert_state(f, POLICY_WATCH);
    g_assert_cmpint(f->outcome.reason, ==, POLICY_REASON_BLIND);
    fleet_run(f, 2100);
    g_assert_cmpuint(fleet_delay_ms(f, 0, f->now_ns), ==, 2000);
    fleet_run(f, 60000);
    assert_state(f, POLICY_WATCH);

    /* It sees again */
    f->sample.readable = true;
    fleet_step_after(f, 20);
    assert_state(f, POLICY_URGENT);
    fleet_set_memory(f, 5000);
    fleet_run(f, 60000);
    assert_state(f, POLICY_CALM);

    /* Calm, then blind: a single failure is none */
    f->sample.readable = false;
    fleet_step_after(f, 1000);
    assert_state(f, POLICY_CALM);
    fleet_run(f, 2000);
    assert_state(f, POLICY_WATCH);
}

static void test_blind_from_the_start(void)
{
    g_autoptr(Fleet) f = fleet_new(1, 1);

    f->sample.readable = false;
    fleet_step(f);
    assert_state(f, POLICY_WATCH);
    g_assert_cmpint(f->outcome.reason, ==, POLICY_REASON_BLIND);
    fleet_run(f, 100000);
    g_assert_cmpuint(fleet_delay_ms(f, 0, f->now_ns), ==, 2000);
}

/* Commands */

static void test_order_up(void)
{
    g_autoptr(Fleet) f = calm_fleet(5);

    f->samples[0].guest_used_bytes = 4 * FLEET_GIB;        /* nothing to give */
    f->samples[1].guest_used_bytes = 1 * FLEET_GIB;        /* 3 GiB */
    f->samples[2].guest_used_bytes = POLICY_BYTES_UNKNOWN; /* all 4 */
    f->samples[3].weight = 1000;                           /* 2 GiB x 10 */
    f->samples[4].guest_used_bytes = 100 * FLEET_GIB;      /* a lie: nothing */
    fleet_set_memory(f, 90);
    fleet_step_after(f, 20);
    g_assert_cmpuint(f->outcome.commands, ==, 5);
    g_assert_cmpuint(f->commands[0].vm, ==, 3);
    g_assert_cmpuint(f->commands[1].vm, ==, 2);
    g_assert_cmpuint(f->commands[2].vm, ==, 1);
    g_assert_cmpuint(f->commands[3].vm, ==, 0);
    g_assert_cmpuint(f->commands[4].vm, ==, 4);
    g_assert_cmpuint(f->vms[4].backlog_bytes, ==, 0);
}

static void test_order_down(void)
{
    enum { COUNT = 200 };
    g_autoptr(Fleet) f = calm_fleet(COUNT);
    int64_t lengthened_ms[COUNT] = { 0 }, start_ns;
    int64_t last_churned = 0, first_calm = INT64_MAX;

    fleet_set_memory(f, 90);
    fleet_step_after(f, 20);
    fleet_set_memory(f, 5000);
    for (int i = 0; i < COUNT; i++) {
        f->vms[i].churn_permille = i % 2 ? 1000 : 0;
    }
    fleet_run(f, 9999);
    fleet_step_after(f, 1);
    assert_state(f, POLICY_TIGHT);
    start_ns = f->now_ns;
    for (int t = 0; t < 2100; t += 20) {
        for (int i = 0; i < COUNT; i++) {
            const PolicyCommand *c = fleet_command(f, i);

            if (c && !c->renewal) {
                g_assert_cmpuint(c->delay_ms, ==, 500);
                g_assert_cmpint(lengthened_ms[i], ==, 0);
                lengthened_ms[i] = (f->now_ns - start_ns) / FLEET_MS + 1;
            }
        }
        fleet_step_after(f, 20);
    }
    for (int i = 0; i < COUNT; i++) {
        g_assert_cmpint(lengthened_ms[i], >, 0);
        g_assert_cmpint(lengthened_ms[i], <=, 2021);
        if (i % 2) {
            last_churned = MAX(last_churned, lengthened_ms[i]);
        } else {
            first_calm = MIN(first_calm, lengthened_ms[i]);
        }
    }
    g_assert_cmpint(last_churned, <=, first_calm + 20);
    /* Spread, not in one go */
    g_assert_cmpint(last_churned, >, 800);
}

/* Another seed and another time, another lot */
static void test_jitter(void)
{
    int64_t lots[3];

    for (int i = 0; i < 3; i++) {
        g_autoptr(Fleet) f = fleet_new(1, i == 2);

        fleet_set_memory(f, 90);
        fleet_step(f);
        fleet_set_memory(f, 5000);
        fleet_step_after(f, 10000);
        if (i == 1) {
            fleet_step_after(f, 10000);
        }
        lots[i] = f->vms[0].lengthen_ns - f->now_ns;
    }
    g_assert_cmpint(lots[0], !=, lots[1]);
    g_assert_cmpint(lots[0], !=, lots[2]);
}

static void test_renewal(void)
{
    g_autoptr(Fleet) f = calm_fleet(1);
    uint32_t commands = f->qemus[0].commands;

    g_assert_cmpuint(fleet_delay_ms(f, 0, f->now_ns), ==, 30000);
    f->vms[0].quiet_ns = f->now_ns + 7200 * FLEET_S;
    fleet_run(f, 3600000);
    g_assert_cmpuint(f->qemus[0].commands - commands, <=, 6);
    g_assert_cmpuint(f->qemus[0].commands - commands, >=, 5);
    g_assert_cmpuint(f->qemus[0].sets, ==, 1);

    fleet_set_memory(f, 90);
    commands = f->qemus[0].commands;
    fleet_run(f, 30000);
    /* The change and a renewal each 3.3 s */
    g_assert_cmpuint(f->qemus[0].commands - commands, >=, 9);
    g_assert_cmpuint(f->qemus[0].commands - commands, <=, 10);
    g_assert_cmpuint(f->qemus[0].sets, ==, 2);
}

static void test_token_bucket(void)
{
    g_autoptr(Fleet) f = fleet_new(5000, 1);

    /* A burst of one for each VM */
    fleet_step(f);
    g_assert_cmpuint(f->outcome.commands, ==, 5000);
    fleet_set_memory(f, 90);
    /* From then on 2000 a second, the sum over any time */
    fleet_step_after(f, 100);
    g_assert_cmpuint(f->outcome.commands, ==, 200);
    g_assert_cmpuint(f->outcome.postponed, ==, 4800);
    g_assert_cmpint(f->outcome.next_ns - f->now_ns, ==, 20 * FLEET_MS);
    fleet_step_after(f, 500);
    g_assert_cmpuint(f->outcome.commands, ==, 1000);
    /* A long quiet saves up no more than the burst. */
    fleet_set_memory(f, 5000);
    fleet_run(f, 100000);
    fleet_set_memory(f, 90);
    fleet_step_after(f, 20);
    g_assert_cmpuint(f->outcome.commands, ==, 5000);
    fleet_set_memory(f, 40);
    fleet_step_after(f, 20);
    g_assert_cmpuint(f->outcome.commands, ==, 40);
}

static void test_new_vm_has_a_token(void)
{
    g_autoptr(Fleet) f = fleet_new(1000, 1);

    f->sample.vm_count = 0;
    fleet_step(f);
    f->sample.vm_count = 1000;
    fleet_step_after(f, 1);
    g_assert_cmpuint(f->outcome.commands, ==, 1000);
}

static void test_timeout_and_back_off(void)
{
    static const int64_t back_off_s[] = { 1, 2, 4, 8, 16, 32, 60, 60 };
    g_autoptr(Fleet) f = calm_fleet(2);
    uint32_t commands;

    f->qemus[0].manner = FLEET_STUCK;
    fleet_set_memory(f, 90);
    fleet_step_after(f, 20);
    commands = f->qemus[0].commands;
    for (size_t i = 0; i < G_N_ELEMENTS(back_off_s); i++) {
        fleet_step_after(f, 499);
        g_assert_true(f->vms[0].in_flight);
        fleet_step_after(f, 1);
        g_assert_false(f->vms[0].in_flight);
        g_assert_cmpint(f->vms[0].why, ==, POLICY_WHY_BACK_OFF);
        fleet_step_after(f, back_off_s[i] * 1000 - 1);
        g_assert_cmpuint(f->qemus[0].commands, ==, commands + i);
        fleet_step_after(f, 1);
        g_assert_cmpuint(f->qemus[0].commands, ==, commands + i + 1);
        /* The other one has long been short. */
        g_assert_cmpuint(fleet_delay_ms(f, 1, f->now_ns), <=, 2000);
    }
    /* It recovers: the back-off starts anew. */
    f->qemus[0].manner = FLEET_OBEYS;
    fleet_run(f, 62000);
    g_assert_cmpuint(f->vms[0].back_off_ms, ==, 0);
}

static void test_late_answer(void)
{
    g_autoptr(Fleet) f = calm_fleet(1);

    f->qemus[0].manner = FLEET_SILENT;
    fleet_set_memory(f, 90);
    fleet_step_after(f, 20);
    fleet_step_after(f, 600);
    g_assert_false(f->vms[0].sure);
    f->samples[0].reply_serial = f->vms[0].serial;
    f->samples[0].reply = POLICY_REPLY_OK;
    fleet_step_after(f, 20);
    g_assert_true(f->vms[0].sure);
    g_assert_cmpuint(f->vms[0].asked_ms, ==, 50);
    g_assert_cmpint(f->vms[0].why, ==, POLICY_WHY_STATE);
}

/* A refusal that comes late is no second failure. */
static void test_late_refusal(void)
{
    g_autoptr(Fleet) f = calm_fleet(1);

    f->qemus[0].manner = FLEET_STUCK;
    fleet_set_memory(f, 90);
    fleet_step_after(f, 20);
    fleet_step_after(f, 600);
    g_assert_cmpuint(f->vms[0].back_off_ms, ==, 1000);
    f->samples[0].reply_serial = f->vms[0].serial;
    f->samples[0].reply = POLICY_REPLY_ERROR;
    fleet_step_after(f, 20);
    g_assert_cmpuint(f->vms[0].back_off_ms, ==, 1000);
}

/* One command in flight; what comes after it is the latest value alone. */
static void test_one_in_flight(void)
{
    g_autoptr(Fleet) f = calm_fleet(1);
    uint32_t commands;

    /* Else the fall alone would do it. */
    f->config.tight_tte_ms = f->config.urgent_tte_ms = 0;
    f->qemus[0].manner = FLEET_SILENT;
    fleet_set_memory(f, 350);
    fleet_step_after(f, 20);
    commands = f->qemus[0].commands;
    fleet_set_memory(f, 150);
    fleet_step_after(f, 20);
    fleet_set_memory(f, 90);
    fleet_step_after(f, 20);
    g_assert_cmpuint(f->qemus[0].commands, ==, commands);
    f->qemus[0].manner = FLEET_OBEYS;
    f->samples[0].reply_serial = f->vms[0].serial;
    f->samples[0].reply = POLICY_REPLY_OK;
    fleet_step_after(f, 20);
    g_assert_cmpuint(f->qemus[0].commands, ==, commands + 1);
    g_assert_cmpuint(fleet_delay_ms(f, 0, f->now_ns), ==, 50);
}

static void test_lost_connection(void)
{
    g_autoptr(Fleet) f = calm_fleet(1);

    f->samples[0].connected = false;
    fleet_set_memory(f, 90);
    fleet_run(f, 5000);
    g_assert_cmpint(f->vms[0].why, ==, POLICY_WHY_UNREACHABLE);
    g_assert_cmpuint(fleet_delay_ms(f, 0, f->now_ns), ==, 30000);
    f->samples[0].connected = true;
    fleet_step_after(f, 20);
    g_assert_cmpuint(fleet_delay_ms(f, 0, f->now_ns), ==, 50);
}

/* Behind the socket is another QEMU now, which holds nothing: no fault of it */
static void test_other_qemu(void)
{
    g_autoptr(Fleet) f = calm_fleet(1);

    f->samples[0].connected = false;
    fleet_run(f, 2000);
    f->qemus[0].requested_ms = NONE;
    f->samples[0].connected = true;
    fleet_run(f, 2000);
    g_assert_cmpint(f->vms[0].why, ==, POLICY_WHY_STATE);
    g_assert_cmpuint(fleet_delay_ms(f, 0, f->now_ns), ==, 30000);
}

static void test_refused(void)
{
    g_autoptr(Fleet) f = calm_fleet(1);
    uint32_t commands = f->qemus[0].commands;

    f->qemus[0].manner = FLEET_REFUSES;
    fleet_set_memory(f, 90);
    fleet_run(f, 10000);
    /* At 0, 1, 3 and 7 s */
    g_assert_cmpuint(f->qemus[0].commands - commands, ==, 4);
    g_assert_cmpuint(f->vms[0].asked_ms, ==, 30000);
}

/* Exemptions */

static void test_exempt(void)
{
    static const struct {
        size_t field;
        bool value;
        PolicyWhy why;
        bool withdrawn;
    } rows[] = {
        { offsetof(PolicyVmSample, offered), false, POLICY_WHY_NOT_OFFERED, false },
        { offsetof(PolicyVmSample, negotiated), false, POLICY_WHY_NOT_NEGOTIATED, false },
        { offsetof(PolicyVmSample, inhibited), true, POLICY_WHY_INHIBITED, false },
        { offsetof(PolicyVmSample, steer), false, POLICY_WHY_STEER_NO, true },
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(Fleet) f = calm_fleet(2);
        uint32_t commands = f->qemus[0].commands;

        *(bool *)((char *)&f->samples[0] + rows[i].field) = rows[i].value;
        fleet_run(f, 1000);
        g_assert_cmpint(f->vms[0].why, ==, rows[i].why);
        fleet_set_memory(f, 90);
        fleet_run(f, 5000);
        g_assert_cmpuint(f->qemus[0].commands - commands, ==, rows[i].withdrawn);
        g_assert_cmpuint(fleet_delay_ms(f, 0, f->now_ns), ==,
                         rows[i].withdrawn ? 2000 : 30000);
        g_assert_cmpuint(f->qemus[1].commands, >, commands);
    }
}

/* A request that is not ours is not ours to withdraw. */
static void test_steer_no_from_the_start(void)
{
    g_autoptr(Fleet) f = fleet_new(1, 1);

    f->samples[0].steer = false;
    f->qemus[0].requested_ms = 100;
    f->qemus[0].lease_ns = INT64_MAX;
    fleet_run(f, 60000);
    g_assert_cmpuint(f->qemus[0].commands, ==, 0);
}

static void test_migration(void)
{
    g_autoptr(Fleet) f = calm_fleet(2);

    f->samples[0].migration = POLICY_MIGRATION_YES;
    fleet_set_memory(f, 90);
    fleet_run(f, 5000);
    g_assert_cmpint(f->vms[0].why, ==, POLICY_WHY_MIGRATING);
    g_assert_cmpuint(fleet_delay_ms(f, 0, f->now_ns), ==, 30000);
    g_assert_cmpuint(fleet_delay_ms(f, 1, f->now_ns), <=, 2000);
    /* Held: its lease is renewed. */
    fleet_run(f, 3600000);
    g_assert_cmpuint(fleet_delay_ms(f, 0, f->now_ns), ==, 30000);
    f->samples[0].migration = POLICY_MIGRATION_NO;
    fleet_step_after(f, 20);
    g_assert_cmpuint(fleet_delay_ms(f, 0, f->now_ns), ==, 50);
    /* Longer is no harm. */
    f->samples[0].migration = POLICY_MIGRATION_YES;
    fleet_set_memory(f, 5000);
    fleet_run(f, 60000);
    g_assert_cmpuint(fleet_delay_ms(f, 0, f->now_ns), >=, 10000);
}

static void test_migration_unknown(void)
{
    g_autoptr(Fleet) f = calm_fleet(1);

    f->samples[0].migration = POLICY_MIGRATION_UNKNOWN;
    f->qemus[0].manner = FLEET_STUCK;
    fleet_set_memory(f, 90);
    fleet_step_after(f, 20);
    g_assert_true(f->commands[0].ask_migration);
    f->samples[0].reply_serial = f->vms[0].serial;
    f->samples[0].reply = POLICY_REPLY_MIGRATING;
    fleet_step_after(f, 20);
    /* No failure, and asked again in a second */
    g_assert_cmpuint(f->vms[0].back_off_ms, ==, 0);
    g_assert_cmpuint(f->vms[0].asked_ms, ==, 30000);
    g_assert_null(fleet_command(f, 0));
    fleet_step_after(f, 1000);
    g_assert_nonnull(fleet_command(f, 0));
}

static void test_pin(void)
{
    g_autoptr(Fleet) f = calm_fleet(1);

    f->samples[0].pin_ms = 700;
    f->samples[0].pin_until_ns = f->now_ns + 60 * FLEET_S;
    fleet_run(f, 1000);
    g_assert_cmpuint(fleet_delay_ms(f, 0, f->now_ns), ==, 700);
    g_assert_cmpint(f->vms[0].why, ==, POLICY_WHY_PINNED);
    fleet_set_memory(f, 90);
    fleet_run(f, 57000);
    g_assert_cmpuint(fleet_delay_ms(f, 0, f->now_ns), ==, 700);
    fleet_run(f, 2100);
    g_assert_cmpuint(fleet_delay_ms(f, 0, f->now_ns), ==, 50);
    /* Pinned to no request */
    f->samples[0].pin_ms = NONE;
    f->samples[0].pin_until_ns = INT64_MAX;
    fleet_run(f, 1000);
    g_assert_cmpuint(f->qemus[0].requested_ms, ==, NONE);
}

static void test_bounds_of_a_vm(void)
{
    g_autoptr(Fleet) f = calm_fleet(2);

    f->samples[0].min_delay_ms = 1000;
    f->samples[1].max_delay_ms = 15000;
    fleet_run(f, 700000);
    g_assert_cmpuint(fleet_delay_ms(f, 1, f->now_ns), ==, 15000);
    fleet_set_memory(f, 90);
    fleet_run(f, 100);
    g_assert_cmpuint(fleet_delay_ms(f, 0, f->now_ns), ==, 1000);
    g_assert_cmpuint(fleet_delay_ms(f, 1, f->now_ns), ==, 50);
}

/* Another writer in the guest: alone for 5 minutes, then withdraw, wait, set */
static void test_other_writer_in_guest(void)
{
    g_autoptr(Fleet) f = calm_fleet(1);
    uint32_t commands = f->qemus[0].commands;

    f->qemus[0].guest_ms = 123;
    fleet_step_after(f, 1000);
    g_assert_cmpint(f->vms[0].why, ==, POLICY_WHY_OTHER_WRITER);
    fleet_set_memory(f, 90);
    fleet_run(f, 299000);
    g_assert_cmpuint(f->qemus[0].commands, ==, commands);

    f->frozen = true;
    fleet_run(f, 2000);
    g_assert_cmpuint(f->qemus[0].commands, ==, commands + 1);
    g_assert_cmpuint(f->qemus[0].requested_ms, ==, NONE);
    g_assert_cmpint(f->vms[0].why, ==, POLICY_WHY_TAKING_BACK);
    fleet_run(f, 30000);
    g_assert_cmpuint(f->qemus[0].commands, ==, commands + 1);

    /* The guest has seen the withdrawal: its own value counts again. */
    f->qemus[0].guest_ms = NONE;
    f->frozen = false;
    fleet_run(f, 100);
    g_assert_cmpuint(fleet_delay_ms(f, 0, f->now_ns), ==, 50);
    g_assert_cmpint(f->vms[0].why, ==, POLICY_WHY_STATE);
}

static void test_take_back_without_an_answer(void)
{
    g_autoptr(Fleet) f = calm_fleet(1);

    f->qemus[0].guest_ms = 123;
    fleet_step_after(f, 1000);
    fleet_run(f, 299990);
    f->frozen = true;
    fleet_run(f, 59000);
    g_assert_cmpint(f->vms[0].why, ==, POLICY_WHY_TAKING_BACK);
    fleet_run(f, 3000);
    g_assert_cmpint(f->vms[0].why, ==, POLICY_WHY_STATE);
}

static void test_take_back_refused(void)
{
    g_autoptr(Fleet) f = calm_fleet(1);

    f->qemus[0].guest_ms = 123;
    fleet_step_after(f, 1000);
    f->qemus[0].manner = FLEET_REFUSES;
    fleet_run(f, 330000);
    g_assert_cmpint(f->vms[0].phase, ==, POLICY_WHY_TAKING_BACK);
    g_assert_false(f->vms[0].withdrawn);
}

static void test_other_writer_in_qmp(void)
{
    static const uint32_t values[] = { 777, NONE };

    for (size_t i = 0; i < G_N_ELEMENTS(values); i++) {
        g_autoptr(Fleet) f = calm_fleet(1);

        f->qemus[0].requested_ms = values[i];
        f->qemus[0].lease_ns = INT64_MAX;
        fleet_step_after(f, 1000);
        g_assert_cmpint(f->vms[0].why, ==, POLICY_WHY_OTHER_WRITER);
        fleet_run(f, 298000);
        g_assert_cmpuint(f->qemus[0].requested_ms, ==, values[i]);
        fleet_run(f, 5000);
        g_assert_cmpint(f->vms[0].why, ==, POLICY_WHY_STATE);
        /* A withdrawal and a request, after the one at first */
        g_assert_cmpuint(f->qemus[0].commands, ==, 3);
        /* Churn or not, five minutes have gone by. */
        g_assert_cmpuint(fleet_delay_ms(f, 0, f->now_ns), >=, 25000);
    }
}

/* An answer from before the command says nothing about it. */
static void test_stale_answer(void)
{
    g_autoptr(Fleet) f = calm_fleet(1);

    f->frozen = true;
    fleet_set_memory(f, 90);
    fleet_run(f, 2000);
    g_assert_cmpint(f->vms[0].why, ==, POLICY_WHY_STATE);
}

/* QEMU's lease ends a little after ours: that is no other writer. */
static void test_lease_ends_late(void)
{
    g_autoptr(Fleet) f = calm_fleet(1);

    f->samples[0].inhibited = true;
    f->qemus[0].lease_ns += 50 * FLEET_MS;
    f->now_ns = f->vms[0].asked_ns + 1800 * FLEET_S;
    f->samples[0].inhibited = false;
    f->vms[0].retry_ns = f->now_ns + 500 * FLEET_MS;
    fleet_step(f);
    fleet_run(f, 1000);
    g_assert_cmpint(f->vms[0].why, ==, POLICY_WHY_STATE);
}

/* A daemon that did not run for long has lost its leases, not its guests. */
static void test_lease_ends_unseen(void)
{
    g_autoptr(Fleet) f = calm_fleet(1);

    fleet_set_memory(f, 90);
    fleet_step_after(f, 20);
    fleet_step_after(f, 20);
    f->now_ns += 30 * FLEET_S;
    fleet_step(f);
    g_assert_cmpint(f->vms[0].why, !=, POLICY_WHY_OTHER_WRITER);
    fleet_run(f, 100);
    g_assert_cmpuint(fleet_delay_ms(f, 0, f->now_ns), ==, 50);
}

static void test_stopping(void)
{
    g_autoptr(Fleet) f = calm_fleet(3);

    fleet_set_memory(f, 90);
    fleet_step_after(f, 20);
    fleet_step_after(f, 20);
    f->samples[2].steer = false;
    f->sample.stopping = true;
    fleet_step_after(f, 20);
    g_assert_cmpuint(f->outcome.commands, ==, 3);
    for (size_t i = 0; i < 3; i++) {
        g_assert_cmpint(f->commands[i].action, ==, POLICY_WITHDRAW);
        g_assert_cmpuint(f->qemus[i].requested_ms, ==, NONE);
    }
    fleet_run(f, 10000);
    g_assert_cmpuint(f->outcome.commands, ==, 0);
}

/* Effect and churn */

/* Each VM discards and grows by that much a second */
static void work(Fleet *f, size_t i, int64_t seconds, uint64_t discard, uint64_t growth)
{
    for (int64_t t = 0; t < seconds; t++) {
        f->samples[i].discarded_bytes += discard;
        f->samples[i].host_bytes += growth - discard;
        fleet_run(f, 1000);
    }
}

static void test_no_effect(void)
{
    g_autoptr(Fleet) f = calm_fleet(2);

    f->config.no_effect_permille = 10;
    fleet_set_memory(f, 90);
    fleet_step_after(f, 20);
    /* The second returns enough each second, the first does not. */
    f->samples[0].discarded_bytes += 31 * FLEET_MIB;
    f->samples[1].discarded_bytes += 33 * FLEET_MIB;
    fleet_run(f, 900);
    g_assert_cmpuint(fleet_delay_ms(f, 0, f->now_ns), ==, 50);
    fleet_run(f, 200);
    g_assert_cmpuint(fleet_delay_ms(f, 0, f->now_ns), ==, 2000);
    g_assert_cmpint(f->vms[0].why, ==, POLICY_WHY_NO_EFFECT);
    g_assert_cmpuint(fleet_delay_ms(f, 1, f->now_ns), ==, 50);
    g_assert_false(f->outcome.exhausted);

    fleet_run(f, 1000);
    g_assert_cmpint(f->vms[1].why, ==, POLICY_WHY_NO_EFFECT);
    g_assert_true(f->outcome.exhausted);

    /* Left alone for 60 s, then tried again */
    fleet_run(f, 57500);
    g_assert_cmpuint(fleet_delay_ms(f, 0, f->now_ns), ==, 2000);
    fleet_run(f, 1500);
    g_assert_cmpuint(fleet_delay_ms(f, 0, f->now_ns), ==, 50);
    g_assert_false(f->outcome.exhausted);
}

/* A VM at rest that frees memory need not wait for the rest to end. */
static void test_rest_ends(void)
{
    g_autoptr(Fleet) f = calm_fleet(1);

    f->config.no_effect_permille = 10;
    fleet_set_memory(f, 90);
    fleet_run(f, 5000);
    g_assert_cmpint(f->vms[0].why, ==, POLICY_WHY_NO_EFFECT);
    f->samples[0].discarded_bytes += 31 * FLEET_MIB;
    fleet_run(f, 1000);
    g_assert_cmpuint(fleet_delay_ms(f, 0, f->now_ns), ==, 2000);
    f->samples[0].discarded_bytes += FLEET_MIB;
    fleet_run(f, 100);
    g_assert_cmpuint(fleet_delay_ms(f, 0, f->now_ns), ==, 50);
}

/* Nor one whose backlog has grown, by its own word */
static void test_rest_ends_by_backlog(void)
{
    g_autoptr(Fleet) f = calm_fleet(1);

    f->config.no_effect_permille = 10;
    fleet_set_memory(f, 90);
    fleet_run(f, 5000);
    g_assert_cmpint(f->vms[0].why, ==, POLICY_WHY_NO_EFFECT);
    f->samples[0].guest_used_bytes -= 500 * FLEET_MIB;
    fleet_run(f, 1000);
    g_assert_cmpuint(fleet_delay_ms(f, 0, f->now_ns), ==, 2000);
    f->samples[0].guest_used_bytes -= 12 * FLEET_MIB;
    fleet_run(f, 100);
    g_assert_cmpuint(fleet_delay_ms(f, 0, f->now_ns), ==, 50);
}

/* In a small VM, 1 % is less than 32 MiB. */
static void test_no_effect_small(void)
{
    g_autoptr(Fleet) f = calm_fleet(2);

    f->config.no_effect_permille = 10;
    f->config.tight_tte_ms = f->config.urgent_tte_ms = 0;
    f->samples[0].host_bytes = f->samples[1].host_bytes = 1000 * FLEET_MIB;
    fleet_run(f, 1000);
    fleet_set_memory(f, 150);
    fleet_step_after(f, 20);
    fleet_run(f, 1000);
    f->samples[0].discarded_bytes += 9 * FLEET_MIB;
    f->samples[1].discarded_bytes += 11 * FLEET_MIB;
    fleet_run(f, 9500);
    g_assert_cmpint(f->vms[0].why, ==, POLICY_WHY_NO_EFFECT);
    g_assert_cmpint(f->vms[1].why, ==, POLICY_WHY_STATE);
}

static void test_churn(void)
{
    g_autoptr(Fleet) f = calm_fleet(3);
    uint32_t commands;

    /* The first drain, however much, is left out. */
    work(f, 0, 40, 500 * FLEET_MIB, 500 * FLEET_MIB);
    g_assert_cmpuint(f->vms[0].churned_total_bytes, ==, 0);
    fleet_run(f, 700000);
    g_assert_true(f->vms[0].drained);
    g_assert_cmpuint(f->vms[0].calm_delay_ms, <, 30000);

    commands = f->qemus[0].commands;
    work(f, 0, 300, 20 * FLEET_MIB, 20 * FLEET_MIB);
    g_assert_cmpuint(f->vms[0].churn_permille, ==, 1000);
    g_assert_cmpuint(f->vms[0].calm_delay_ms, ==, 60000);
    g_assert_cmpuint(fleet_delay_ms(f, 0, f->now_ns), ==, 60000);
    g_assert_cmpuint(f->qemus[0].commands - commands, <=, 5);
    g_assert_cmpuint(f->vms[1].calm_delay_ms, <=, 30000);

    /* A third is not yet churn: 20 of 100, and growth without discards */
    work(f, 1, 20, 100 * FLEET_MIB, 20 * FLEET_MIB);
    fleet_run(f, 60000);
    work(f, 1, 100, 0, 20 * FLEET_MIB);
    g_assert_cmpuint(f->vms[1].calm_delay_ms, <=, 30000);
    g_assert_cmpuint(f->vms[1].churn_permille, <=, 500);
}

/* Memory that is wanted back after more than a minute was worth returning. */
static void test_churn_is_soon(void)
{
    g_autoptr(Fleet) f = calm_fleet(1);

    fleet_run(f, 700000);
    work(f, 0, 1, FLEET_GIB, 0);
    fleet_run(f, 70000);
    work(f, 0, 1, 0, FLEET_GIB);
    fleet_run(f, 60000);
    g_assert_cmpuint(f->vms[0].churned_total_bytes, ==, 0);
}

/* Host memory alone, without an answer that goes with it, says nothing. */
static void test_churn_needs_an_answer(void)
{
    g_autoptr(Fleet) f = calm_fleet(1);

    fleet_run(f, 700000);
    work(f, 0, 5, FLEET_GIB / 2, 0);
    f->frozen = true;
    work(f, 0, 5, 0, FLEET_GIB / 2);
    g_assert_cmpuint(f->vms[0].churned_total_bytes, ==, 0);
}

static void test_calm_delay_falls(void)
{
    g_autoptr(Fleet) f = calm_fleet(1);
    uint32_t commands = f->qemus[0].commands;

    fleet_run(f, 3600000);
    g_assert_cmpuint(f->vms[0].calm_delay_ms, ==, 10000);
    g_assert_cmpuint(fleet_delay_ms(f, 0, f->now_ns), ==, 10000);
    /* All of that within the renewals */
    g_assert_cmpuint(f->qemus[0].commands - commands, <=, 7);
}

/* A device that is new counts from 0; that is no negative number of bytes. */
static void test_counter_goes_back(void)
{
    g_autoptr(Fleet) f = calm_fleet(1);

    f->samples[0].discarded_bytes = 100 * FLEET_GIB;
    fleet_run(f, 700000);
    f->samples[0].discarded_bytes = FLEET_GIB;
    fleet_run(f, 120000);
    g_assert_false(f->vms[0].drained);
    g_assert_cmpuint(f->vms[0].churned_total_bytes, <=, 100 * FLEET_GIB);
}

/* Configuration */

static void test_config(void)
{
    static const struct {
        size_t offset;
        uint32_t value;
        const char *message;
    } rows[] = {
        { offsetof(PolicyConfig, urgent_delay_ms), 600001,
          "'urgent-delay-ms' is 600001, it must be 0 to 600000" },
        { offsetof(PolicyConfig, tight_delay_ms), 3000,
          "'tight-delay-ms' is 3000, it must be at most 'watch-delay-ms', "
          "which is 2000" },
        { offsetof(PolicyConfig, watch_below_floor_percent), 200,
          "'tight-below-floor-percent' is 200, it must be below "
          "'watch-below-floor-percent', which is 200" },
        { offsetof(PolicyConfig, short_lease_ms), 999,
          "'short-lease-ms' is 999, it must be 1000 to 3600000" },
        { offsetof(PolicyConfig, commands_per_s), 0,
          "'commands-per-s' is 0, it must be 1 to 1000000" },
    };
    PolicyConfig config;
    char message[200];

    policy_config_init(&config);
    g_assert_true(policy_config_check(&config, message, sizeof(message)));
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        policy_config_init(&config);
        *(uint32_t *)((char *)&config + rows[i].offset) = rows[i].value;
        g_assert_false(policy_config_check(&config, message, sizeof(message)));
        g_assert_cmpstr(message, ==, rows[i].message);
    }
}

/* Each field has one key, and each key one field */
static void test_config_keys(void)
{
    bool seen[sizeof(PolicyConfig) / sizeof(uint32_t)] = { false };

    g_assert_cmpuint(policy_config_keys_count, ==, G_N_ELEMENTS(seen));
    for (size_t i = 0; i < policy_config_keys_count; i++) {
        const PolicyConfigKey *key = &policy_config_keys[i];

        g_assert_cmpuint(key->offset % sizeof(uint32_t), ==, 0);
        g_assert_false(seen[key->offset / sizeof(uint32_t)]);
        seen[key->offset / sizeof(uint32_t)] = true;
        g_assert_cmpuint(key->standard, >=, key->min);
        g_assert_cmpuint(key->standard, <=, key->max);
        for (size_t j = 0; j < i; j++) {
            g_assert_cmpstr(key->key, !=, policy_config_keys[j].key);
        }
    }
}

static void test_names(void)
{
    g_assert_cmpstr(policy_state_name(POLICY_URGENT), ==, "URGENT");
    g_assert_cmpstr(policy_state_name(99), ==, "?");
    for (int i = 0; i < POLICY_REASONS; i++) {
        g_assert_nonnull(policy_reason_name(i));
    }
    for (int i = 0; i < POLICY_HOLDS; i++) {
        g_assert_nonnull(policy_hold_name(i));
    }
    for (int i = 0; i < POLICY_WHYS; i++) {
        g_assert_nonnull(policy_why_name(i));
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/host/bands", test_bands);
    g_test_add_func("/host/floor", test_floor);
    g_test_add_func("/host/discount", test_discount);
    g_test_add_func("/host/discount-is-no-fall", test_discount_is_no_fall);
    g_test_add_func("/host/time-to-empty", test_time_to_empty);
    g_test_add_func("/host/up-at-once", test_up_at_once);
    g_test_add_func("/host/down", test_down);
    g_test_add_func("/host/hold", test_hold);
    g_test_add_func("/host/hold-starts-anew", test_hold_starts_anew);
    g_test_add_func("/host/hysteresis-after-psi", test_hysteresis_after_psi);
    g_test_add_func("/host/psi-veto", test_psi_veto);
    g_test_add_func("/host/third-urgent", test_third_urgent);
    g_test_add_func("/host/three-urgents-apart", test_three_urgents_apart);
    g_test_add_func("/host/zero", test_zero);
    g_test_add_func("/host/tick", test_tick);
    g_test_add_func("/host/blind", test_blind);
    g_test_add_func("/host/blind-from-the-start", test_blind_from_the_start);
    g_test_add_func("/command/order-up", test_order_up);
    g_test_add_func("/command/order-down", test_order_down);
    g_test_add_func("/command/jitter", test_jitter);
    g_test_add_func("/command/renewal", test_renewal);
    g_test_add_func("/command/token-bucket", test_token_bucket);
    g_test_add_func("/command/new-vm-has-a-token", test_new_vm_has_a_token);
    g_test_add_func("/command/back-off", test_timeout_and_back_off);
    g_test_add_func("/command/late-answer", test_late_answer);
    g_test_add_func("/command/late-refusal", test_late_refusal);
    g_test_add_func("/command/one-in-flight", test_one_in_flight);
    g_test_add_func("/command/lost-connection", test_lost_connection);
    g_test_add_func("/command/other-qemu", test_other_qemu);
    g_test_add_func("/command/refused", test_refused);
    g_test_add_func("/command/lease-ends-unseen", test_lease_ends_unseen);
    g_test_add_func("/command/lease-ends-late", test_lease_ends_late);
    g_test_add_func("/command/stopping", test_stopping);
    g_test_add_func("/exempt/all", test_exempt);
    g_test_add_func("/exempt/steer-no", test_steer_no_from_the_start);
    g_test_add_func("/exempt/migration", test_migration);
    g_test_add_func("/exempt/migration-unknown", test_migration_unknown);
    g_test_add_func("/exempt/pin", test_pin);
    g_test_add_func("/exempt/bounds", test_bounds_of_a_vm);
    g_test_add_func("/writer/guest", test_other_writer_in_guest);
    g_test_add_func("/writer/no-answer", test_take_back_without_an_answer);
    g_test_add_func("/writer/refused", test_take_back_refused);
    g_test_add_func("/writer/qmp", test_other_writer_in_qmp);
    g_test_add_func("/writer/stale-answer", test_stale_answer);
    g_test_add_func("/account/no-effect", test_no_effect);
    g_test_add_func("/account/rest-ends", test_rest_ends);
    g_test_add_func("/account/rest-ends-by-backlog", test_rest_ends_by_backlog);
    g_test_add_func("/account/no-effect-small", test_no_effect_small);
    g_test_add_func("/account/churn", test_churn);
    g_test_add_func("/account/churn-is-soon", test_churn_is_soon);
    g_test_add_func("/account/churn-needs-an-answer", test_churn_needs_an_answer);
    g_test_add_func("/account/calm-delay-falls", test_calm_delay_falls);
    g_test_add_func("/account/counter-goes-back", test_counter_goes_back);
    g_test_add_func("/config/check", test_config);
    g_test_add_func("/config/keys", test_config_keys);
    g_test_add_func("/config/names", test_names);
    return g_test_run();
}
