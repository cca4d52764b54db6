/*
 * QTest: the report delay of virtio-balloon: feature, config space, request
 *
 * Each test is named for the fact it shows, and runs over modern and legacy
 * virtio-pci where the transport matters.  The test plays the guest's driver:
 * it writes the config field as one would, byte by byte on legacy.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "virtio-balloon-report-util.h"

/* The feature */

static void test_offered(const void *transport)
{
    Balloon *b = start(transport, ON);
    uint64_t features = qvirtio_get_features(&b->dev->vdev);

    g_assert_cmphex(features & report_bits, ==, report_bits);
    g_assert_true(query_bool(b->qts, "offered"));
    g_assert_false(query_bool(b->qts, "negotiated"));
    negotiate(b, 0);
    g_assert_true(query_bool(b->qts, "negotiated"));
    stop(b);
}

static void test_not_offered(const void *transport)
{
    Balloon *b = start(transport, "free-page-reporting=on");
    uint64_t features = qvirtio_get_features(&b->dev->vdev);

    g_assert_cmphex(features & report_bits, ==,
                    1ull << VIRTIO_BALLOON_F_REPORTING);
    g_assert_false(query_bool(b->qts, "offered"));
    assert_error(qtest_qmp(b->qts, "{ 'execute': 'balloon-set-report-delay',"
                           " 'arguments': { 'delay-ms': 5 } }"),
                 "GenericError", "report-delay=on");
    assert_error(qtest_qmp(b->qts, "{ 'execute': 'qom-set', 'arguments': {"
                           " 'path': 'b', 'property': 'report-delay-ms',"
                           " 'value': 5 } }"),
                 "GenericError", "report-delay=on");
    g_assert_cmpint(query_int(b->qts, "requested-ms"), ==, -1);
    stop(b);
}

static void test_needs_reporting(const void *transport)
{
    Balloon *b = start(transport, ON);

    negotiate(b, 1ull << VIRTIO_BALLOON_F_REPORTING);
    g_assert_false(query_bool(b->qts, "negotiated"));
    write_config(b, APPLIED_OFFSET, 5);
    g_assert_cmpint(query_int(b->qts, "applied-ms"), ==, -1);
    g_assert_cmphex(read_config(b, APPLIED_OFFSET), ==, NONE);
    stop(b);
}

/* Config space */

static void test_layout(const void *transport)
{
    Balloon *b = start_negotiated(transport);
    static const uint8_t little_endian[4] = { 0x45, 0x23, 0x01, 0x00 };

    g_assert_cmphex(read_config(b, REQUEST_OFFSET), ==, NONE);
    g_assert_cmphex(read_config(b, APPLIED_OFFSET), ==, NONE);
    set_delay(b->qts, 0x12345);
    for (int i = 0; i < 4; i++) {
        g_assert_cmphex(qvirtio_config_readb(&b->dev->vdev, REQUEST_OFFSET + i),
                        ==, little_endian[i]);
    }
    /* The request is the device's: a driver's write changes nothing. */
    write_config(b, REQUEST_OFFSET, 7);
    g_assert_cmphex(read_config(b, REQUEST_OFFSET), ==, 0x12345);
    g_assert_cmpint(query_int(b->qts, "requested-ms"), ==, 0x12345);

    write_config(b, APPLIED_OFFSET, 0x54321);
    g_assert_cmphex(read_config(b, APPLIED_OFFSET), ==, 0x54321);
    stop(b);
}

static void test_interrupt(const void *transport)
{
    Balloon *b = start_negotiated(transport);

    config_interrupt(b);
    set_delay(b->qts, 100);
    qvirtio_wait_config_isr(&b->dev->vdev, TIMEOUT_US);
    set_delay(b->qts, 100);
    g_assert_false(config_interrupt(b));
    set_lease(b->qts, 100, 60000);
    g_assert_false(config_interrupt(b));
    set_delay(b->qts, 200);
    g_assert_true(config_interrupt(b));
    withdraw(b->qts);
    g_assert_true(config_interrupt(b));
    g_assert_cmphex(read_config(b, REQUEST_OFFSET), ==, NONE);
    stop(b);
}

/* The answer */

static void test_applied(const void *transport)
{
    Balloon *b = start_negotiated(transport);

    write_config(b, APPLIED_OFFSET, 2000);
    assert_applied_event(b->qts, 2000, -1);
    set_delay(b->qts, 777);
    g_assert_cmpint(query_int(b->qts, "applied-ms"), ==, -1);
    write_config(b, APPLIED_OFFSET, 777);
    g_assert_cmpint(query_int(b->qts, "applied-ms"), ==, 777);
    /* Events come once a second of the clock that a test drives. */
    qtest_clock_step(b->qts, EVENT_WINDOW_NS);
    assert_applied_event(b->qts, 777, 777);

    /* The same again is no change. */
    qtest_clock_step(b->qts, EVENT_WINDOW_NS);
    write_config(b, APPLIED_OFFSET, 777);
    qtest_clock_step(b->qts, EVENT_WINDOW_NS);
    assert_no_event(b->qts);
    stop(b);
}

static void test_event_rate(const void *transport)
{
    Balloon *b = start_negotiated(transport);

    for (unsigned int ms = 1; ms <= 100; ms++) {
        write_config(b, APPLIED_OFFSET, NONE);
        write_config(b, APPLIED_OFFSET, ms);
    }
    assert_applied_event(b->qts, 1, -1);
    assert_no_event(b->qts);
    qtest_clock_step(b->qts, EVENT_WINDOW_NS);
    assert_applied_event(b->qts, 100, -1);
    stop(b);
}

static void test_out_of_range(const void *transport)
{
    Balloon *b = start_negotiated(transport);

    write_config(b, APPLIED_OFFSET, 600000);
    g_assert_cmpint(query_int(b->qts, "applied-ms"), ==, 600000);
    assert_applied_event(b->qts, 600000, -1);
    qtest_clock_step(b->qts, EVENT_WINDOW_NS);
    write_config(b, APPLIED_OFFSET, 600001);
    g_assert_cmpint(query_int(b->qts, "applied-ms"), ==, -1);
    write_config(b, APPLIED_OFFSET, 0x80000000);
    g_assert_cmpint(query_int(b->qts, "applied-ms"), ==, -1);
    assert_no_event(b->qts);
    stop(b);
}

/* A modern driver writes the field as a whole: one byte may be all the news. */
static void test_whole_write(void)
{
    Balloon *b = start_negotiated("modern");

    write_config(b, APPLIED_OFFSET, 500);
    write_config(b, APPLIED_OFFSET, 416);
    g_assert_cmpint(query_int(b->qts, "applied-ms"), ==, 416);
    write_config(b, APPLIED_OFFSET, 0);
    g_assert_cmpint(query_int(b->qts, "applied-ms"), ==, 0);
    stop(b);
}

/*
 * Byte by byte from one value in range to another: never a mixture.  A modern
 * driver has to write the field as a whole.
 */
static void test_torn(void)
{
    Balloon *b = start_negotiated("legacy");
    static const uint32_t values[] = { 500, 416, 4000, 0x10000, 255, 256, 0,
                                       600000, 1, 0x101, 0x100 };

    for (int i = 0; i < ARRAY_SIZE(values); i++) {
        for (int byte = 0; byte < 4; byte++) {
            int64_t applied;

            write_byte(b, APPLIED_OFFSET + byte, values[i] >> (8 * byte));
            applied = query_int(b->qts, "applied-ms");
            if (applied != -1 && applied != values[i]) {
                /* Nothing has changed yet, or it is a lie. */
                g_assert_cmpint(i, >, 0);
                g_assert_cmpint(applied, ==, values[i - 1]);
            }
        }
        g_assert_cmpint(query_int(b->qts, "applied-ms"), ==, values[i]);
    }
    stop(b);
}

static void test_new_request_voids_answer(const void *transport)
{
    Balloon *b = start_negotiated(transport);

    set_delay(b->qts, 100);
    write_config(b, APPLIED_OFFSET, 100);
    set_delay(b->qts, 200);
    g_assert_cmpint(query_int(b->qts, "applied-ms"), ==, -1);
    /* A write to another field must not bring the old answer back. */
    write_config(b, ACTUAL_OFFSET, 1);
    g_assert_cmpint(query_int(b->qts, "applied-ms"), ==, -1);

    write_config(b, APPLIED_OFFSET, 200);
    withdraw(b->qts);
    g_assert_cmpint(query_int(b->qts, "applied-ms"), ==, -1);
    stop(b);
}

/* The guest had the value already: its answer to the request is an event. */
static void test_answer_is_news(const void *transport)
{
    Balloon *b = start_negotiated(transport);

    write_config(b, APPLIED_OFFSET, 2000);
    assert_applied_event(b->qts, 2000, -1);
    qtest_clock_step(b->qts, EVENT_WINDOW_NS);
    set_delay(b->qts, 2000);
    write_config(b, APPLIED_OFFSET, 2000);
    qtest_clock_step(b->qts, EVENT_WINDOW_NS);
    assert_applied_event(b->qts, 2000, 2000);
    stop(b);
}

/* Asked again for the same, for another lease: the answer stands. */
static void test_renewal_keeps_answer(const void *transport)
{
    Balloon *b = start_negotiated(transport);

    set_lease(b->qts, 0, 3600000);
    write_config(b, APPLIED_OFFSET, 0);
    set_lease(b->qts, 0, 3000000);
    g_assert_cmpint(query_int(b->qts, "applied-ms"), ==, 0);
    g_assert_cmphex(read_config(b, APPLIED_OFFSET), ==, 0);
    stop(b);
}

/* A reset also clears the bytes that the transport keeps. */
static void test_reset_clears_cache(const void *transport)
{
    Balloon *b = start_negotiated(transport);

    write_config(b, APPLIED_OFFSET, 100);
    qvirtio_start_device(&b->dev->vdev);
    negotiate(b, 0);
    write_config(b, ACTUAL_OFFSET, 1);
    g_assert_cmpint(query_int(b->qts, "applied-ms"), ==, -1);
    stop(b);
}

/* Bits taken back without a reset, as a legacy driver can. */
static void test_answer_ends_with_feature(void)
{
    Balloon *b = start_negotiated("legacy");

    write_config(b, APPLIED_OFFSET, 100);
    negotiate(b, 1ull << VIRTIO_BALLOON_F_REPORT_DELAY);
    g_assert_false(query_bool(b->qts, "negotiated"));
    g_assert_cmpint(query_int(b->qts, "applied-ms"), ==, -1);
    stop(b);
}

/* QEMU 4.0's config size, which is larger than it had to be, and ours. */
static void test_old_machine(const void *transport)
{
    Balloon *b = start(transport,
                       ON ",qemu-4-0-config-size=on,page-poison=off");

    negotiate(b, 0);
    set_delay(b->qts, 100);
    g_assert_cmphex(read_config(b, REQUEST_OFFSET), ==, 100);
    write_config(b, APPLIED_OFFSET, 100);
    g_assert_cmpint(query_int(b->qts, "applied-ms"), ==, 100);
    stop(b);
}

static void test_reset(const void *transport)
{
    Balloon *b = start_negotiated(transport);

    set_lease(b->qts, 100, 3600000);
    write_config(b, APPLIED_OFFSET, 100);
    qvirtio_start_device(&b->dev->vdev);
    g_assert_false(query_bool(b->qts, "negotiated"));
    g_assert_cmpint(query_int(b->qts, "applied-ms"), ==, -1);
    g_assert_cmpint(query_int(b->qts, "requested-ms"), ==, 100);
    g_assert_cmpint(query_int(b->qts, "lease-left-ms"), >, 0);

    /* A driver without the feature cannot answer, nor revive the answer. */
    negotiate(b, 1ull << VIRTIO_BALLOON_F_REPORT_DELAY);
    write_config(b, APPLIED_OFFSET, 100);
    g_assert_cmpint(query_int(b->qts, "applied-ms"), ==, -1);

    qvirtio_start_device(&b->dev->vdev);
    negotiate(b, 0);
    write_config(b, ACTUAL_OFFSET, 1);
    g_assert_cmpint(query_int(b->qts, "applied-ms"), ==, -1);
    g_assert_cmphex(read_config(b, REQUEST_OFFSET), ==, 100);
    stop(b);
}

/* A new device's first write, before any read, to another field. */
static void test_first_write(const void *transport)
{
    Balloon *b = start_negotiated(transport);

    write_config(b, ACTUAL_OFFSET, 1);
    g_assert_cmpint(query_int(b->qts, "applied-ms"), ==, -1);
    assert_no_event(b->qts);
    stop(b);
}

/* The request */

static void test_before_driver(const void *transport)
{
    Balloon *b = start(transport, ON ",report-delay-ms=300");

    g_assert_cmpint(query_int(b->qts, "requested-ms"), ==, 300);
    g_assert_cmphex(read_config(b, REQUEST_OFFSET), ==, 300);
    set_delay(b->qts, 400);
    negotiate(b, 0);
    g_assert_cmphex(read_config(b, REQUEST_OFFSET), ==, 400);
    stop(b);
}

static void test_paused(const void *transport)
{
    Balloon *b = start_negotiated(transport);

    config_interrupt(b);
    qtest_qmp_assert_success(b->qts, "{ 'execute': 'stop' }");
    set_delay(b->qts, 400);
    qtest_qmp_assert_success(b->qts, "{ 'execute': 'cont' }");
    g_assert_true(config_interrupt(b));
    g_assert_cmphex(read_config(b, REQUEST_OFFSET), ==, 400);
    stop(b);
}

static void test_lease(const void *transport)
{
    Balloon *b = start_negotiated(transport);
    gint64 deadline = g_get_monotonic_time() + TIMEOUT_US;
    int64_t left;

    set_lease(b->qts, 100, 3600000);
    left = query_int(b->qts, "lease-left-ms");
    g_assert_cmpint(left, >, 3000000);
    g_assert_cmpint(left, <=, 3600000);
    set_delay(b->qts, 100);
    g_assert_cmpint(query_int(b->qts, "lease-left-ms"), ==, -1);

    /* It ends by host time, also while the guest stands still. */
    qtest_qmp_assert_success(b->qts, "{ 'execute': 'stop' }");
    config_interrupt(b);
    set_lease(b->qts, 100, 200);
    while (query_int(b->qts, "requested-ms") != -1) {
        g_assert_cmpint(g_get_monotonic_time(), <, deadline);
        g_usleep(10000);
    }
    g_assert_true(config_interrupt(b));
    g_assert_cmphex(read_config(b, REQUEST_OFFSET), ==, NONE);
    g_assert_cmpint(query_int(b->qts, "lease-left-ms"), ==, -1);
    stop(b);
}

static void test_property(const void *transport)
{
    Balloon *b = start_negotiated(transport);
    static const int bad[] = { -2, 600001 };
    QDict *value;

    for (int i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_error(qtest_qmp(b->qts, "{ 'execute': 'qom-set', 'arguments': {"
                               " 'path': 'b', 'property': 'report-delay-ms',"
                               " 'value': %d } }", bad[i]),
                     "GenericError", "0 to 600000");
    }
    set_lease(b->qts, 100, 3600000);
    qtest_qmp_assert_success(b->qts, "{ 'execute': 'qom-set', 'arguments': {"
                             " 'path': 'b', 'property': 'report-delay-ms',"
                             " 'value': 600000 } }");
    g_assert_cmpint(query_int(b->qts, "requested-ms"), ==, 600000);
    g_assert_cmpint(query_int(b->qts, "lease-left-ms"), ==, -1);
    qtest_qmp_assert_success(b->qts, "{ 'execute': 'qom-set', 'arguments': {"
                             " 'path': 'b', 'property': 'report-delay-ms',"
                             " 'value': -1 } }");
    g_assert_cmpint(query_int(b->qts, "requested-ms"), ==, -1);
    value = qtest_qmp(b->qts, "{ 'execute': 'qom-get', 'arguments': {"
                      " 'path': 'b', 'property': 'report-delay-ms' } }");
    g_assert_cmpint(qdict_get_int(value, "return"), ==, -1);
    qobject_unref(value);
    stop(b);
}

/* HMP and trace points */

static void assert_hmp(QTestState *qts, const char *line, const char *words)
{
    g_autofree char *text = qtest_hmp(qts, "%s", line);

    if (words[0] ? !strstr(text, words) : text[0]) {
        g_error("'%s' says '%s', not '%s'", line, text, words);
    }
}

static void test_hmp(void)
{
    Balloon *b = start_negotiated("modern");

    assert_hmp(b->qts, "balloon_report_delay 0", "");
    assert_hmp(b->qts, "info balloon_report_delay", "requested: 0 ms");
    assert_hmp(b->qts, "info balloon_report_delay", "applied: none");
    write_config(b, APPLIED_OFFSET, 1234);
    assert_hmp(b->qts, "info balloon_report_delay", "applied: 1234 ms");
    assert_hmp(b->qts, "balloon_report_delay 600001", "0 to 600000");
    assert_hmp(b->qts, "balloon_report_delay -1", "0 to 600000");
    assert_hmp(b->qts, "balloon_report_delay 4294967296", "0 to 600000");
    assert_hmp(b->qts, "balloon_report_delay", "");
    assert_hmp(b->qts, "info balloon_report_delay", "requested: none");
    assert_hmp(b->qts, "help balloon_report_delay", "_report_delay [ms]");
    stop(b);
}

static void test_trace(void)
{
    g_autofree char *path = NULL;
    g_autofree char *machine = NULL;
    g_autofree char *text = NULL;
    int fd = g_file_open_tmp("balloon-report-XXXXXX", &path, NULL);
    gint64 deadline = g_get_monotonic_time() + TIMEOUT_US;
    Balloon *b;

    g_assert_cmpint(fd, >=, 0);
    close(fd);
    machine = g_strdup_printf("-trace 'virtio_balloon_report*' -D %s", path);
    b = start_machine("modern", ON, machine);
    negotiate(b, 0);
    set_delay(b->qts, 321);
    write_config(b, APPLIED_OFFSET, 123);
    set_lease(b->qts, 321, 1);
    while (query_int(b->qts, "requested-ms") != -1) {
        g_assert_cmpint(g_get_monotonic_time(), <, deadline);
        g_usleep(10000);
    }
    stop(b);

    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    g_assert_nonnull(strstr(text, "delay_set delay: 321 ms"));
    g_assert_nonnull(strstr(text, "delay_applied applied: 123 ms"));
    g_assert_nonnull(strstr(text, "delay_lease_end"));
    unlink(path);
}

/* Errors that no transport matters for */

static void test_bad_arguments(void)
{
    QTestState *qts = qtest_init("-device virtio-balloon-pci," ON);
    static const char *const typed[] = {
        "-1", "4294967296", "18446744073709551615", "1.5", "'300'", "null",
        "true", "{}",
    };
    static const char *const ranged[] = { "600001", "2147483648",
                                          "4294967295" };

    set_delay(qts, 123);
    for (int i = 0; i < ARRAY_SIZE(typed); i++) {
        g_autofree char *command = g_strdup_printf(
            "{ 'execute': 'balloon-set-report-delay',"
            " 'arguments': { 'delay-ms': %s } }", typed[i]);

        qtest_qmp_send_raw(qts, "%s", command);
        assert_error(qtest_qmp_receive(qts), "GenericError", "delay-ms");
    }
    for (int i = 0; i < ARRAY_SIZE(ranged); i++) {
        g_autofree char *command = g_strdup_printf(
            "{ 'execute': 'balloon-set-report-delay',"
            " 'arguments': { 'delay-ms': %s } }", ranged[i]);

        qtest_qmp_send_raw(qts, "%s", command);
        assert_error(qtest_qmp_receive(qts), "GenericError", "0 to 600000");
    }
    assert_error(qtest_qmp(qts, "{ 'execute': 'balloon-set-report-delay',"
                           " 'arguments': { 'lease-ms': 5 } }"),
                 "GenericError", "delay-ms");
    assert_error(qtest_qmp(qts, "{ 'execute': 'balloon-set-report-delay',"
                           " 'arguments': { 'delay-ms': 1, 'lease-ms': 0 } }"),
                 "GenericError", "1 to 3600000");
    assert_error(qtest_qmp(qts, "{ 'execute': 'balloon-set-report-delay',"
                           " 'arguments': { 'delay-ms': 1,"
                           " 'lease-ms': 3600001 } }"),
                 "GenericError", "1 to 3600000");
    g_assert_cmpint(query_int(qts, "requested-ms"), ==, 123);
    g_assert_cmpint(query_int(qts, "lease-left-ms"), ==, -1);
    qtest_quit(qts);
}

static void test_no_balloon(void)
{
    QTestState *qts = qtest_init("");

    assert_error(qtest_qmp(qts, "{ 'execute': 'balloon-set-report-delay',"
                           " 'arguments': { 'delay-ms': 5 } }"),
                 "DeviceNotActive", "No balloon device");
    assert_error(qtest_qmp(qts, "{ 'execute': 'query-balloon-report-delay' }"),
                 "DeviceNotActive", "No balloon device");
    qtest_quit(qts);
}

/* What cannot start says why, and leaves the machine without a balloon. */
static void test_bad_properties(void)
{
    QTestState *qts = qtest_init("");

    assert_error(qtest_qmp(qts, "{ 'execute': 'device_add', 'arguments': {"
                           " 'driver': 'virtio-balloon-pci',"
                           " 'report-delay': true } }"),
                 "GenericError", "free-page-reporting=on");
    assert_error(qtest_qmp(qts, "{ 'execute': 'device_add', 'arguments': {"
                           " 'driver': 'virtio-balloon-pci',"
                           " 'free-page-reporting': true,"
                           " 'report-delay-ms': 5 } }"),
                 "GenericError", "report-delay=on");
    assert_error(qtest_qmp(qts, "{ 'execute': 'device_add', 'arguments': {"
                           " 'driver': 'virtio-balloon-pci',"
                           " 'free-page-reporting': true,"
                           " 'report-delay': true,"
                           " 'report-delay-ms': 600001 } }"),
                 "GenericError", "0 to 600000");
    assert_error(qtest_qmp(qts, "{ 'execute': 'query-balloon-report-delay' }"),
                 "DeviceNotActive", "No balloon device");
    /* Nor does a check of stock's that fails take the balloon's place. */
    assert_error(qtest_qmp(qts, "{ 'execute': 'device_add', 'arguments': {"
                           " 'driver': 'virtio-balloon-pci',"
                           " 'free-page-hint': true } }"),
                 "GenericError", "iothread");
    assert_error(qtest_qmp(qts, "{ 'execute': 'query-balloon-report-delay' }"),
                 "DeviceNotActive", "No balloon device");
    qtest_qmp_assert_success(qts, "{ 'execute': 'device_add', 'arguments': {"
                             " 'driver': 'virtio-balloon-pci', 'id': 'b',"
                             " 'free-page-reporting': true,"
                             " 'report-delay': true } }");
    set_delay(qts, 5);
    qtest_quit(qts);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);

    add_transports("feature/offered-when-on", test_offered);
    add_transports("feature/absent-when-off", test_not_offered);
    add_transports("feature/void-without-reporting", test_needs_reporting);
    add_transports("config/offsets-and-endianness", test_layout);
    add_transports("config/interrupt-only-on-change", test_interrupt);
    add_transports("applied/reaches-query-and-event", test_applied);
    add_transports("applied/events-limited-last-delivered", test_event_rate);
    add_transports("applied/out-of-range-is-absent", test_out_of_range);
    qtest_add_func("balloon-report/legacy/applied/torn-is-absent", test_torn);
    add_transports("applied/void-after-new-request",
                   test_new_request_voids_answer);
    add_transports("applied/event-answers-request", test_answer_is_news);
    add_transports("applied/kept-at-lease-renewal", test_renewal_keeps_answer);
    add_transports("applied/void-after-reset", test_reset);
    add_transports("applied/cache-void-after-reset", test_reset_clears_cache);
    qtest_add_func("balloon-report/modern/applied/whole-field-written",
                   test_whole_write);
    qtest_add_func("balloon-report/legacy/applied/ends-with-the-feature",
                   test_answer_ends_with_feature);
    add_transports("config/old-machine-types", test_old_machine);
    add_transports("applied/not-from-first-write-elsewhere", test_first_write);
    add_transports("request/kept-until-driver-starts", test_before_driver);
    add_transports("request/delivered-after-pause", test_paused);
    add_transports("request/lease-ends-by-host-time", test_lease);
    add_transports("request/property-same-as-command", test_property);
    qtest_add_func("balloon-report/monitor/hmp", test_hmp);
    qtest_add_func("balloon-report/monitor/trace-points", test_trace);
    qtest_add_func("balloon-report/errors/arguments", test_bad_arguments);
    qtest_add_func("balloon-report/errors/no-balloon", test_no_balloon);
    qtest_add_func("balloon-report/errors/properties", test_bad_properties);

    return g_test_run();
}
