/*
 * The model does what its README says, and the law what it promises in it
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <glib.h>
#include <string.h>

#include "model.h"
#include "replay.h"
#include "trace.h"

#define NONE POLICY_DELAY_NONE

/* PSI */

/* 10 % of a window of 1 s: 90 ms of stall are none, 110 ms are */
static void test_psi_threshold(void)
{
    static const struct {
        int64_t stall_ms;
        bool event;
    } rows[] = { { 90, false }, { 110, true } };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        PsiTrigger t;
        bool event = false;

        psi_trigger_init(&t, 100 * MODEL_MS, MODEL_S, 0);
        for (int64_t now = 1; now <= 10; now++) {
            event |= psi_trigger_update(&t, now * 100 * MODEL_MS,
                                        rows[i].stall_ms * now * MODEL_MS / 10);
        }
        g_assert_cmpint(event, ==, rows[i].event);
    }
}

/* However long the stall, one event a window */
static void test_psi_rate(void)
{
    PsiTrigger t;
    int events = 0;

    psi_trigger_init(&t, 100 * MODEL_MS, MODEL_S, 0);
    for (int64_t now = 1; now <= 100; now++) {
        events += psi_trigger_update(&t, now * 100 * MODEL_MS, now * 100 * MODEL_MS);
    }
    g_assert_cmpint(events, >=, 9);
    g_assert_cmpint(events, <=, 10);
}

/* The window before counts in part: 80 ms in it, and 80 ms soon after */
static void test_psi_slides(void)
{
    PsiTrigger t;

    psi_trigger_init(&t, 100 * MODEL_MS, MODEL_S, 0);
    g_assert_false(psi_trigger_update(&t, 1001 * MODEL_MS, 80 * MODEL_MS));
    g_assert_true(psi_trigger_update(&t, 1201 * MODEL_MS, 160 * MODEL_MS));
}

/* An event that the rate held back comes with the next update. */
static void test_psi_deferred(void)
{
    PsiTrigger t;

    psi_trigger_init(&t, 100 * MODEL_MS, MODEL_S, 0);
    g_assert_true(psi_trigger_update(&t, 100 * MODEL_MS, 100 * MODEL_MS));
    g_assert_false(psi_trigger_update(&t, 300 * MODEL_MS, 300 * MODEL_MS));
    g_assert_true(psi_trigger_update(&t, 1100 * MODEL_MS, 300 * MODEL_MS));
    g_assert_false(psi_trigger_update(&t, 9000 * MODEL_MS, 300 * MODEL_MS));
}

/* Guests */

/* 12 GiB that has been used, 10 of them now free */
static ModelGuest guest_with_backlog(uint32_t delay_ms)
{
    return (ModelGuest){
        .total_bytes = 12 * MODEL_GIB,
        .used_bytes = 12 * MODEL_GIB,
        .delay_ms = delay_ms,
        .pass_ns = MODEL_NEVER,
    };
}

/* FACTS.md: 10 GiB in a guest of 13 GiB are back after 24.2 s at 2 s (97 %) */
static void test_guest_drains(void)
{
    static const uint32_t delays_ms[] = { 2000, 250, 50 };

    for (size_t i = 0; i < G_N_ELEMENTS(delays_ms); i++) {
        ModelGuest g = guest_with_backlog(delays_ms[i]);
        int64_t now_ns = MODEL_S;
        int passes = 0;

        guest_use(&g, 2 * MODEL_GIB, now_ns);
        g_assert_cmpint(g.pass_ns - now_ns, ==, delays_ms[i] * MODEL_MS);
        while (g.pass_ns != MODEL_NEVER) {
            now_ns = g.pass_ns;
            guest_pass(&g, now_ns);
            passes++;
        }
        g_assert_cmpuint(g.returned_bytes, ==, 10 * MODEL_GIB);
        g_assert_cmpuint(g.freed_bytes, ==, 0);
        g_assert_cmpint(passes, >=, 10);
        g_assert_cmpint(passes, <=, 16);
        g_assert_cmpint(now_ns - MODEL_S, ==, passes * delays_ms[i] * MODEL_MS);
    }
}

/* A change moves the pending pass, counted from when it was asked for. */
static void test_guest_rearms(void)
{
    ModelGuest g = guest_with_backlog(60000);

    guest_use(&g, 2 * MODEL_GIB, MODEL_S);
    guest_set_delay(&g, 10000, 5 * MODEL_S);
    g_assert_cmpint(g.pass_ns, ==, 11 * MODEL_S);
    guest_set_delay(&g, 30000, 6 * MODEL_S);
    g_assert_cmpint(g.pass_ns, ==, 31 * MODEL_S);
    guest_set_delay(&g, 50, 7 * MODEL_S);
    g_assert_cmpint(g.pass_ns, ==, 7 * MODEL_S);

    g = guest_with_backlog(60000);
    guest_set_delay(&g, 50, MODEL_S);
    g_assert_cmpint(g.pass_ns, ==, MODEL_NEVER);
}

/* What the host still backs is used first, and costs nothing. */
static void test_guest_refaults(void)
{
    ModelGuest g = guest_with_backlog(2000);

    guest_use(&g, 2 * MODEL_GIB, MODEL_S);
    g.freed_bytes -= 4 * MODEL_GIB;
    g.returned_bytes += 4 * MODEL_GIB;
    guest_use(&g, 8 * MODEL_GIB, 2 * MODEL_S);
    g_assert_cmpuint(g.used_bytes, ==, 8 * MODEL_GIB);
    g_assert_cmpuint(g.wanted_bytes, ==, 0);
    guest_use(&g, 11 * MODEL_GIB, 2 * MODEL_S);
    g_assert_cmpuint(g.wanted_bytes, ==, 3 * MODEL_GIB);
    g_assert_cmpuint(guest_fault(&g, 3 * MODEL_GIB), ==, 3 * MODEL_GIB);
    g_assert_cmpuint(g.returned_bytes, ==, MODEL_GIB);
    /* More than there is: as much as there is */
    guest_use(&g, 100 * MODEL_GIB, 3 * MODEL_S);
    g_assert_cmpuint(g.wanted_bytes, ==, MODEL_GIB);
}

/* The first touch of memory is no re-fault; reports count it as discarded. */
static void test_guest_untouched(void)
{
    ModelGuest g = {
        .total_bytes = 4 * MODEL_GIB,
        .fresh_bytes = 4 * MODEL_GIB,
        .delay_ms = 2000,
        .pass_ns = MODEL_S,
    };

    while (g.pass_ns != MODEL_NEVER) {
        g_assert_cmpuint(guest_pass(&g, g.pass_ns), ==, 0);
    }
    g_assert_cmpuint(g.discarded_bytes, ==, 4 * MODEL_GIB);
    guest_use(&g, MODEL_GIB, 60 * MODEL_S);
    g_assert_cmpuint(guest_fault(&g, MODEL_GIB), ==, 0);
}

/* Runs */

static ModelResult run(ModelWork work, ModelControl control, uint64_t seed,
                       uint32_t overcommit_percent)
{
    ModelConfig config;
    ModelResult result;

    model_config_init(&config);
    config.work = work;
    config.control = control;
    config.seed = seed;
    config.overcommit_percent = overcommit_percent;
    model_run(&config, &result);
    return result;
}

static void test_same_again(void)
{
    for (int work = 0; work < MODEL_WORKS; work++) {
        ModelResult a = run(work, MODEL_STEER, 3, 200);
        ModelResult b = run(work, MODEL_STEER, 3, 200);

        g_assert_cmpmem(&a, sizeof(a), &b, sizeof(b));
    }
}

/* What is claimed of the mixed workload, on every seed that is tried here */
static void test_mixed(void)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        ModelResult fixed = run(MODEL_MIXED, MODEL_FIXED, seed, 200);
        ModelResult ours = run(MODEL_MIXED, MODEL_STEER, seed, 200);

        g_test_message("seed %d: %.0f%% of the re-faults", (int)seed,
                       100.0 * ours.refaulted_bytes / fixed.refaulted_bytes);
        g_assert_cmpuint(ours.refaulted_bytes, <=, fixed.refaulted_bytes / 10 * 7);
        g_assert_cmpfloat(ours.stall_s, <=, fixed.stall_s);
        g_assert_cmpuint(ours.opposite_in_10s, <=, 1);
        g_assert_cmpuint(ours.calm_commands_per_hour, <=, 20);
    }
}

/* In every workload, and with far too little memory, too */
static void test_direction(void)
{
    static const uint32_t overcommit[] = { 150, 200, 240, 300 };

    for (int work = 0; work < MODEL_WORKS; work++) {
        for (size_t i = 0; i < G_N_ELEMENTS(overcommit); i++) {
            ModelResult r = run(work, MODEL_STEER, 5, overcommit[i]);

            g_assert_cmpuint(r.opposite_in_10s, <=, 1);
            g_assert_cmpuint(r.other_writers, ==, 0);
        }
    }
}

/* Where guests free nothing, nothing can be returned: steering is no help. */
static void test_leak(void)
{
    ModelResult fixed = run(MODEL_LEAK, MODEL_FIXED, 1, 150);
    ModelResult ours = run(MODEL_LEAK, MODEL_STEER, 1, 150);

    g_assert_cmpfloat(fixed.stall_s, >, 0);
    g_assert_cmpfloat(ours.stall_s, >, fixed.stall_s * 0.99);
    g_assert_cmpfloat(ours.stall_s, <, fixed.stall_s * 1.01);
}

static void test_thousand(void)
{
    ModelConfig config;
    ModelResult result;
    int64_t start_us = g_get_monotonic_time();

    model_config_init(&config);
    config.guests = 1000;
    config.overcommit_percent = 240;
    model_run(&config, &result);
    g_assert_cmpint(g_get_monotonic_time() - start_us, <, 10000000);
    g_assert_cmpuint(result.commands, >, 1000);
}

/* Traces */

static FILE *text_file(const char *text, size_t length)
{
    FILE *file = tmpfile();

    g_assert_nonnull(file);
    g_assert_cmpuint(fwrite(text, 1, length, file), ==, length);
    rewind(file);
    return file;
}

static void test_trace_round_trip(void)
{
    PolicySample host = {
        .readable = true,
        .ram_bytes = 64 * MODEL_GIB,
        .available_bytes = 8 * MODEL_GIB,
        .free_bytes = MODEL_GIB,
        .high_watermark_bytes = 300 * MODEL_MIB,
        .psi = true,
        .psi_some_events = 2,
        .psi_full_events = 1,
        .psi_some_permille = 123,
    };
    PolicyVmSample vm = {
        .connected = true,
        .offered = true,
        .negotiated = true,
        .discarded_bytes = INT64_MAX,
        .host_bytes = 5,
        .guest_used_bytes = POLICY_BYTES_UNKNOWN,
        .migration = POLICY_MIGRATION_UNKNOWN,
        .steer = true,
        .weight = 10000,
    };
    FILE *file = tmpfile();
    TraceReader reader;
    TraceRow row;

    g_assert_true(trace_write_header(file));
    g_assert_true(trace_write_host(file, 0, &host));
    g_assert_true(trace_write_vm(file, 1, "a,b\nc", &vm));
    g_assert_true(trace_write_gone(file, 2, "a_b_c"));
    rewind(file);
    g_assert_true(trace_open(&reader, file, "t", NULL));
    g_assert_true(trace_read(&reader, &row, NULL));
    g_assert_cmpint(row.kind, ==, TRACE_HOST);
    g_assert_cmpmem(&row.host, sizeof(host), &host, sizeof(host));
    g_assert_true(trace_read(&reader, &row, NULL));
    g_assert_cmpint(row.kind, ==, TRACE_VM);
    g_assert_cmpint(row.time_ms, ==, 1);
    g_assert_cmpstr(row.name, ==, "a_b_c");
    g_assert_cmpmem(&row.vm, sizeof(vm), &vm, sizeof(vm));
    g_assert_true(trace_read(&reader, &row, NULL));
    g_assert_cmpint(row.kind, ==, TRACE_GONE);
    g_assert_true(trace_read(&reader, &row, NULL));
    g_assert_cmpint(row.kind, ==, TRACE_END);
    fclose(file);
}

#define HEAD "balloon-steer trace 1\n"

static void test_trace_bad(void)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        { "", "t:1: the line is '', it must be 'balloon-steer trace 1'" },
        { "balloon-steer trace 2\n",
          "t:1: the line is 'balloon-steer trace 2', it must be "
          "'balloon-steer trace 1'" },
        { HEAD "guest,1\n", "t:2: 'kind' is 'guest', it must be host, vm or gone" },
        { HEAD "# a comment\n\ngone,1\n",
          "t:4: 'number of fields' is '2', it must be 3 for 'gone'" },
        { HEAD "host,0,1,1,-3,1,1,1,0,0,0\n",
          "t:2: 'available-bytes' is '-3', it must be 0 to "
          "9223372036854775807" },
        { HEAD "host,0,2,1,1,1,1,1,0,0,0\n",
          "t:2: 'readable' is '2', it must be 0 to 1" },
        { HEAD "host,0,1,1,1,1,1,1,0,0,1001\n",
          "t:2: 'psi-some-permille' is '1001', it must be 0 to 1000" },
        { HEAD "vm,0,,1,1,1,0,0,0,0,no,1,1\n",
          "t:2: 'name' is '', it must be 1 to 255 bytes, none of them a "
          "control byte" },
        { HEAD "vm,0,a,1,1,1,0,0,0,0,maybe,1,1\n",
          "t:2: 'migration' is 'maybe', it must be no, yes or unknown" },
        { HEAD "vm,0,a,1,1,1,0, 5,0,0,no,1,1\n",
          "t:2: 'discarded-bytes' is ' 5', it must be 0 to "
          "9223372036854775807" },
        { HEAD "vm,0,a,1,1,1,0,unknown,0,0,no,1,1\n",
          "t:2: 'discarded-bytes' is 'unknown', it must be 0 to "
          "9223372036854775807" },
        { HEAD "gone,5,a\ngone,4,a\n",
          "t:3: 'time-ms' is '4', it must be 5 to 86400005" },
        { HEAD "gone,5,a\ngone,86400006,a\n",
          "t:3: 'time-ms' is '86400006', it must be 5 to 86400005" },
        { HEAD "gone,5,\x1b[2J\n",
          "t:2: 'name' is '\\033[2J', it must be 1 to 255 bytes, none of them "
          "a control byte" },
        { HEAD "gone,99999999999999999999999,a\n",
          "t:2: 'time-ms' is '99999999999999999999999', it must be 0 to "
          "2305843009213" },
        { HEAD ",,,,,,,,,,,,,,,,,,,,,,,,,,,\n",
          "t:2: 'kind' is '', it must be host, vm or gone" },
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        FILE *file = text_file(rows[i].text, strlen(rows[i].text));
        g_autoptr(GError) error = NULL;
        PolicyConfig config;
        ReplayResult result;

        policy_config_init(&config);
        g_assert_false(replay_run(file, "t", &config, NULL, false, &result, &error));
        g_assert_cmpstr(error->message, ==, rows[i].message);
        fclose(file);
    }
}

static void test_trace_long_and_binary(void)
{
    g_autofree char *text = g_malloc(100000);
    PolicyConfig config;
    ReplayResult result;

    policy_config_init(&config);
    for (int seed = 0; seed < 200; seed++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(GRand) r = g_rand_new_with_seed(seed);
        FILE *file;

        memset(text, 'x', 100000);
        memcpy(text, HEAD, strlen(HEAD));
        for (size_t i = strlen(HEAD); seed && i < 100000; i++) {
            text[i] = g_rand_int_range(r, 0, 256);
        }
        file = text_file(text, 100000);
        g_assert_false(replay_run(file, "t", &config, NULL, false, &result, &error));
        g_assert_nonnull(error);
        if (!seed) {
            g_assert_cmpstr(error->message, ==,
                            "t:2: the line is longer than 1024 bytes");
        }
        fclose(file);
    }
}

static void test_replay(void)
{
    PolicySample host = {
        .readable = true,
        .ram_bytes = 28 * MODEL_GIB,
        .available_bytes = 20 * MODEL_GIB,
        .free_bytes = 20 * MODEL_GIB,
    };
    PolicyVmSample vm = {
        .connected = true,
        .offered = true,
        .negotiated = true,
        .steer = true,
        .host_bytes = MODEL_GIB,
        .guest_used_bytes = MODEL_GIB,
    };
    g_autofree char *out = NULL;
    size_t size;
    FILE *file = tmpfile(), *log = open_memstream(&out, &size);
    PolicyConfig config;
    ReplayResult result;

    policy_config_init(&config);
    trace_write_header(file);
    for (int s = 0; s <= 300; s += 10) {
        host.available_bytes = (s >= 100 && s < 120 ? 500 : 20000) * MODEL_MIB;
        vm.discarded_bytes += MODEL_GIB;
        trace_write_vm(file, s * 1000, "one", &vm);
        trace_write_vm(file, s * 1000, "two", &vm);
        trace_write_host(file, s * 1000, &host);
        if (s == 200) {
            trace_write_gone(file, s * 1000, "one");
        }
    }
    rewind(file);
    g_assert_true(replay_run(file, "t", &config, log, true, &result, NULL));
    fclose(log);
    fclose(file);
    g_assert_cmpuint(result.vms, ==, 1 + 1);
    g_assert_cmpuint(result.transitions, ==, 5);
    g_assert_nonnull(strstr(out, "100.000 s  CALM -> URGENT: available memory; "
                                 "usable 500 MiB, floor 899 MiB\n"));
    g_assert_nonnull(strstr(out, "100.000 s  two: set 50 ms, lease 10 s "
                                 "(host state)\n"));
    g_assert_nonnull(strstr(out, "EASY -> CALM: quiet"));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/psi/threshold", test_psi_threshold);
    g_test_add_func("/psi/rate", test_psi_rate);
    g_test_add_func("/psi/slides", test_psi_slides);
    g_test_add_func("/psi/deferred", test_psi_deferred);
    g_test_add_func("/guest/drains", test_guest_drains);
    g_test_add_func("/guest/rearms", test_guest_rearms);
    g_test_add_func("/guest/refaults", test_guest_refaults);
    g_test_add_func("/guest/untouched", test_guest_untouched);
    g_test_add_func("/run/same-again", test_same_again);
    g_test_add_func("/run/mixed", test_mixed);
    g_test_add_func("/run/direction", test_direction);
    g_test_add_func("/run/leak", test_leak);
    g_test_add_func("/run/thousand", test_thousand);
    g_test_add_func("/trace/round-trip", test_trace_round_trip);
    g_test_add_func("/trace/bad", test_trace_bad);
    g_test_add_func("/trace/long-and-binary", test_trace_long_and_binary);
    g_test_add_func("/replay", test_replay);
    return g_test_run();
}
