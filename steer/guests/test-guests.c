/*
 * QMP against QEMUs of every kind of manners
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <glib/gstdio.h>
#include <gio/gio.h>
#include <unistd.h>

#include "fake-qmp.h"
#include "guest.h"
#include "json-scan.h"
#include "qmp-client.h"
#include "qmp-message.h"

/* Text */

static void test_scan(void)
{
    static const struct {
        const char *text;
        bool good;
    } cases[] = {
        { "{}", true },
        { " { } \r", true },
        { "{\"a\": 1}", true },
        { "{\"a\": -1.5e+3, \"b\": [true, null, \"x\\\"y\"], \"c\": {}}", true },
        { "{\"a\": {\"b\": [[[]]]}}", true },
        { "", false },
        { " ", false },
        { "[]", false },
        { "1", false },
        { "{", false },
        { "}", false },
        { "{]", false },
        { "{\"a\"}", false },
        { "{\"a\":}", false },
        { "{\"a\": 1,}", false },
        { "{\"a\": 1 2}", false },
        { "{\"a\": [1}]", false },
        { "{\"a\": \"x}", false },
        { "{\"a\": \"x\\", false },
        { "{\"a\": \"x\ny\"}", false },
        { "{a: 1}", false },
        { "{\"a\": 1}}", false },
        { "{\"a\": 1} {}", false },
        { "{\"a\": \"\xff\"}", false },
        { "{\"a\": \x01}", false },
    };

    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *text = g_memdup2(cases[i].text, strlen(cases[i].text));

        if (json_scan(text, strlen(cases[i].text), NULL, 0) != cases[i].good) {
            g_error("json_scan: %s", cases[i].text);
        }
    }
}

static void test_scan_depth(void)
{
    for (int depth = 1; depth < 100; depth++) {
        g_autoptr(GString) text = g_string_new("{\"a\":");

        for (int i = 0; i < depth; i++) {
            g_string_append_c(text, '[');
        }
        for (int i = 0; i < depth; i++) {
            g_string_append_c(text, ']');
        }
        g_string_append_c(text, '}');
        g_assert_cmpint(json_scan(text->str, text->len, NULL, 0), ==,
                        depth < JSON_SCAN_DEPTH_MAX);
    }
}

static void scan(const char *line, QmpMessage *message)
{
    qmp_message_scan(line, strlen(line), message);
}

static void test_message(void)
{
    QmpMessage m;

    scan("{\"return\": {\"x\": 1}, \"id\": 12}", &m);
    g_assert_cmpint(m.kind, ==, QMP_RETURN);
    g_assert_true(m.has_id);
    g_assert_cmpuint(m.id, ==, 12);
    g_assert_cmpmem(m.body, m.body_length, "{\"x\": 1}", 8);

    scan("{\"id\": \"libvirt-12\", \"error\": {\"desc\": \"no\\nway\"}}", &m);
    g_assert_cmpint(m.kind, ==, QMP_ERROR);
    g_assert_false(m.has_id);
    g_autofree char *words = qmp_parse_error(m.body, m.body_length);
    g_assert_cmpstr(words, ==, "no?way");

    scan("{\"event\": \"STOP\", \"timestamp\": {}}", &m);
    g_assert_cmpint(m.kind, ==, QMP_EVENT);
    g_assert_true(qmp_message_is_event(&m, "STOP"));
    g_assert_false(qmp_message_is_event(&m, "STOPPED"));
    g_assert_null(m.body);

    scan("{\"event\": 5}", &m);
    g_assert_cmpint(m.kind, ==, QMP_BAD);
    scan("{\"event\": \"\"}", &m);
    g_assert_cmpint(m.kind, ==, QMP_BAD);
    scan("{\"other\": 5}", &m);
    g_assert_cmpint(m.kind, ==, QMP_BAD);
    scan("{\"return\": {}, \"id\": 99999999999999999999}", &m);
    g_assert_false(m.has_id);
    scan("{\"return\": {}, \"id\": -1}", &m);
    g_assert_false(m.has_id);
}

#define INFO(more)                                                                       \
    "{\"offered\": true, \"negotiated\": true, "                                         \
    "\"inhibited\": false, \"reports\": 1, \"reported-bytes\": 2, "                      \
    "\"discarded-bytes\": 3" more "}"

static void test_info(void)
{
    static const char full[] = INFO(", \"requested-ms\": 0, \"applied-ms\": 600000, "
                                    "\"lease-left-ms\": 3600000, \"unknown\": [1]");
    static const char *const bad[] = {
        "",
        "{}",
        "[]",
        "5",
        "null",
        INFO(", \"applied-ms\": 600001"),
        INFO(", \"applied-ms\": -1"),
        INFO(", \"applied-ms\": 1.5"),
        INFO(", \"applied-ms\": \"1\""),
        INFO(", \"requested-ms\": 4294967295"),
        INFO(", \"lease-left-ms\": 3600001"),
        INFO(", \"offered\": 1"),
        INFO(", \"inhibited\": null"),
        INFO(", \"reports\": -1"),
        INFO(", \"discarded-bytes\": 18446744073709551615"),
    };
    GuestInfo info;

    g_assert_true(qmp_parse_info(full, strlen(full), &info, NULL));
    g_assert_true(info.offered);
    g_assert_cmpuint(info.requested_ms, ==, 0);
    g_assert_cmpuint(info.applied_ms, ==, 600000);
    g_assert_cmpuint(info.lease_left_ms, ==, 3600000);
    g_assert_cmpuint(info.discarded_bytes, ==, 3);
    g_assert_true(qmp_parse_info(INFO(""), strlen(INFO("")), &info, NULL));
    g_assert_cmpuint(info.applied_ms, ==, GUEST_NONE);

    for (gsize i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) error = NULL;

        if (qmp_parse_info(bad[i], strlen(bad[i]), &info, &error)) {
            g_error("qmp_parse_info: %s", bad[i]);
        }
        g_assert_nonnull(error);
    }
}

static bool parse_migrating(const char *body, bool *migrating)
{
    return qmp_parse_migrating(body, strlen(body), migrating, NULL);
}

static void test_hints(void)
{
    static const char used[] = "{\"last-update\": 5, \"stats\": "
                               "{\"stat-total-memory\": 100, \"stat-free-memory\": 30}}";
    static const char *const unused[] = {
        "{}",
        "[]",
        "{\"last-update\": 0, \"stats\": {\"stat-total-memory\": "
        "100, \"stat-free-memory\": 30}}",
        "{\"last-update\": 5}",
        "{\"last-update\": 5, \"stats\": {\"stat-total-memory\": 100, "
        "\"stat-free-memory\": 101}}",
        "{\"last-update\": 5, \"stats\": "
        "{\"stat-total-memory\": 18446744073709551615, "
        "\"stat-free-memory\": 1}}",
    };
    static const char list[] =
        "[5, {\"name\": \"x\"}, {\"name\": \"a b\", "
        "\"type\": \"child<virtio-balloon-pci>\"}, {\"name\": \"b0\", "
        "\"type\": \"child<virtio-balloon-pci>\"}]";
    uint64_t bytes = 0;
    bool migrating;

    g_assert_true(qmp_parse_used(used, strlen(used), &bytes));
    g_assert_cmpuint(bytes, ==, 70);
    for (gsize i = 0; i < G_N_ELEMENTS(unused); i++) {
        g_assert_false(qmp_parse_used(unused[i], strlen(unused[i]), &bytes));
    }

    g_autofree char *name = qmp_parse_balloon(list, strlen(list));
    g_assert_cmpstr(name, ==, "b0");
    g_assert_null(qmp_parse_balloon("{}", 2));

    g_assert_true(parse_migrating("{}", &migrating));
    g_assert_false(migrating);
    g_assert_true(parse_migrating("{\"status\": \"completed\"}", &migrating));
    g_assert_false(migrating);
    g_assert_true(parse_migrating("{\"status\": \"active\"}", &migrating));
    g_assert_true(migrating);
    g_assert_true(parse_migrating("{\"status\": \"brand-new\"}", &migrating));
    g_assert_true(migrating);
    g_assert_false(parse_migrating("{\"status\": 5}", &migrating));
}

static void test_format(void)
{
    GuestCommand set = { .op = GUEST_OP_SET, .delay_ms = 50, .lease_ms = 10000 };
    GuestCommand withdraw = { .op = GUEST_OP_WITHDRAW };
    g_autofree char *arguments = qmp_format_set(&set);
    g_autofree char *line = qmp_format("balloon-set-report-delay", 7, arguments);
    g_autofree char *nothing = qmp_format_set(&withdraw);

    g_assert_cmpstr(line, ==,
                    "{\"execute\":\"balloon-set-report-delay\","
                    "\"id\":7,\"arguments\":{\"delay-ms\":50,"
                    "\"lease-ms\":10000}}\n");
    g_assert_cmpstr(nothing, ==, "{}");
}

/* Connections */

typedef struct Record {
    GHashTable *guests;
    unsigned int answers;
    GuestAnswer last;
    char *last_error;
    unsigned int applied;
    unsigned int troubles;
} Record;

static void on_found(void *opaque, Guest *guest)
{
    Record *record = opaque;

    g_assert_true(g_hash_table_insert(record->guests, g_strdup(guest->name), guest));
}

static void on_changed(void *opaque, Guest *guest)
{
    (void)opaque;
    g_assert_true(guest->up == !guest->why);
}

static void on_lost(void *opaque, Guest *guest)
{
    Record *record = opaque;

    g_assert_true(g_hash_table_remove(record->guests, guest->name));
}

static void on_answered(void *opaque, Guest *guest, const GuestAnswer *answer)
{
    Record *record = opaque;

    if (g_str_equal(guest->name, "tested")) {
        record->answers++;
        record->last = *answer;
        g_free(record->last_error);
        record->last_error = g_strdup(answer->error);
    } else {
        g_assert_cmpint(answer->verdict, ==, GUEST_OK);
        guest->data = GUINT_TO_POINTER(GPOINTER_TO_UINT(guest->data) + 1);
    }
}

static void on_applied(void *opaque, Guest *guest, uint32_t applied_ms,
                       uint32_t requested_ms)
{
    Record *record = opaque;

    (void)guest;
    g_assert_cmpuint(applied_ms, ==, 77);
    g_assert_cmpuint(requested_ms, ==, 78);
    record->applied++;
}

static void on_trouble(void *opaque, const Guest *guest, const char *text)
{
    Record *record = opaque;

    g_test_message("%s: %s", guest ? guest->name : "-", text);
    record->troubles++;
}

typedef struct Fixture {
    char *folder;
    FakeHost *host;
    GuestBackend *backend;
    GuestListener listener;
    Record record;
    int64_t ahead_us; /* how far the backend's clock is ahead */
} Fixture;

static void set_up(Fixture *f, gconstpointer data)
{
    (void)data;
    f->folder = g_dir_make_tmp("steer-guests-XXXXXX", NULL);
    f->host = fake_host_new(f->folder);
    f->record.guests = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    f->listener = (GuestListener){
        .opaque = &f->record,
        .found = on_found,
        .changed = on_changed,
        .lost = on_lost,
        .answered = on_answered,
        .applied = on_applied,
        .trouble = on_trouble,
    };
}

static void start(Fixture *f)
{
    g_autoptr(GError) error = NULL;

    f->backend = qmp_backend_class.start(f->folder, &f->listener, &error);
    g_assert_no_error(error);
}

static void tear_down(Fixture *f, gconstpointer data)
{
    (void)data;
    if (f->backend) {
        qmp_backend_class.stop(f->backend);
    }
    g_assert_cmpuint(g_hash_table_size(f->record.guests), ==, 0);
    g_hash_table_unref(f->record.guests);
    g_free(f->record.last_error);
    fake_host_free(f->host);
    g_assert_cmpint(g_rmdir(f->folder), ==, 0);
    g_free(f->folder);
}

static Guest *guest(Fixture *f, const char *name)
{
    return g_hash_table_lookup(f->record.guests, name);
}

static void run_once(Fixture *f)
{
    g_main_context_iteration(NULL, FALSE);
    f->backend->class->tick(f->backend, g_get_monotonic_time() + f->ahead_us);
    g_usleep(1000);
}

#define RUN_UNTIL(f, condition)                                                          \
    do {                                                                                 \
        int64_t end_us_ = g_get_monotonic_time() + 10 * G_USEC_PER_SEC;                  \
        while (!(condition)) {                                                           \
            g_assert_cmpint(g_get_monotonic_time(), <, end_us_);                         \
            run_once(f);                                                                 \
        }                                                                                \
    } while (0)

static void run_for(Fixture *f, int64_t us)
{
    int64_t end_us = g_get_monotonic_time() + us;

    while (g_get_monotonic_time() < end_us) {
        run_once(f);
    }
}

static bool is_up(Fixture *f, const char *name)
{
    return guest(f, name) && guest(f, name)->up;
}

static void send_set(Guest *g, uint32_t tag, uint32_t delay_ms)
{
    GuestCommand command = {
        .op = GUEST_OP_SET,
        .tag = tag,
        .delay_ms = delay_ms,
        .lease_ms = 10000,
        .not_while_migrating = true,
    };

    g_assert_true(guest_send(g, &command));
}

static void send_query(Guest *g, uint32_t tag)
{
    GuestCommand command = { .op = GUEST_OP_QUERY, .tag = tag, .hints = true };

    g_assert_true(guest_send(g, &command));
}

static unsigned int neighbour_answers(Fixture *f)
{
    return GPOINTER_TO_UINT(guest(f, "neighbour")->data);
}

/* Whatever the tested one does, another is served at once. */
static void check_neighbour(Fixture *f)
{
    unsigned int before = neighbour_answers(f);
    int64_t start_us = g_get_monotonic_time();

    send_set(guest(f, "neighbour"), 99, 123);
    RUN_UNTIL(f, neighbour_answers(f) == before + 1);
    g_assert_cmpint(g_get_monotonic_time() - start_us, <, G_USEC_PER_SEC);
    g_assert_cmpuint(fake_host_look(f->host, "neighbour").requested_ms, ==, 123);
}

static void begin(Fixture *f, FakeScript script)
{
    fake_host_add(f->host, "neighbour", FAKE_GOOD);
    fake_host_add(f->host, "tested", script);
    start(f);
    RUN_UNTIL(f, is_up(f, "neighbour"));
}

static void test_good(Fixture *f, gconstpointer data)
{
    FakeGuest seen;

    begin(f, GPOINTER_TO_INT(data));
    RUN_UNTIL(f, is_up(f, "tested"));
    g_assert_cmpint(guest(f, "tested")->pid, ==, getpid());

    send_set(guest(f, "tested"), 5, 50);
    RUN_UNTIL(f, f->record.answers == 1);
    g_assert_cmpuint(f->record.last.tag, ==, 5);
    g_assert_cmpint(f->record.last.verdict, ==, GUEST_OK);
    seen = fake_host_look(f->host, "tested");
    g_assert_cmpuint(seen.requested_ms, ==, 50);
    g_assert_cmpuint(seen.lease_ms, ==, 10000);

    send_query(guest(f, "tested"), 6);
    RUN_UNTIL(f, f->record.answers == 2);
    g_assert_cmpint(f->record.last.verdict, ==, GUEST_OK);
    g_assert_cmpuint(f->record.last.info.applied_ms, ==, 50);
    g_assert_true(f->record.last.has_used);
    g_assert_cmpuint(f->record.last.used_bytes, ==, 256 << 20);
    g_assert_true(f->record.last.has_migrating);
    g_assert_false(f->record.last.migrating);
    check_neighbour(f);
}

static void test_old(Fixture *f, gconstpointer data)
{
    (void)data;
    begin(f, FAKE_OLD);
    RUN_UNTIL(f, is_up(f, "tested"));
    send_query(guest(f, "tested"), 1);
    RUN_UNTIL(f, f->record.answers == 1);
    g_assert_cmpint(f->record.last.verdict, ==, GUEST_REFUSED);
    g_assert_cmpstr(f->record.last_error, ==, "The command is not found");
    check_neighbour(f);
}

static void test_refuses(Fixture *f, gconstpointer data)
{
    (void)data;
    begin(f, FAKE_REFUSES);
    RUN_UNTIL(f, is_up(f, "tested"));
    send_set(guest(f, "tested"), 1, 50);
    RUN_UNTIL(f, f->record.answers == 1);
    g_assert_cmpint(f->record.last.verdict, ==, GUEST_REFUSED);
    g_assert_nonnull(strstr(f->record.last_error, "report-delay=on"));
    check_neighbour(f);
}

static void test_migrates(Fixture *f, gconstpointer data)
{
    (void)data;
    begin(f, FAKE_MIGRATES);
    RUN_UNTIL(f, is_up(f, "tested"));
    send_set(guest(f, "tested"), 1, 50);
    RUN_UNTIL(f, f->record.answers == 1);
    g_assert_cmpint(f->record.last.verdict, ==, GUEST_MIGRATING);
    g_assert_cmpuint(fake_host_look(f->host, "tested").sets, ==, 0);
    check_neighbour(f);
}

/* Those that never get as far as to be up. */
static void test_never_up(Fixture *f, gconstpointer data)
{
    FakeScript script = GPOINTER_TO_INT(data);
    bool violates = script == FAKE_GARBAGE || script == FAKE_NOT_QMP;

    begin(f, script);
    run_for(f, 300 * 1000);
    g_assert_false(guest(f, "tested")->up);
    g_assert_nonnull(guest(f, "tested")->why);
    check_neighbour(f);

    if (violates) {
        /* Tried again, after 1/8 s and not all the time. */
        g_assert_cmpuint(f->record.troubles, >=, 2);
        g_assert_cmpuint(f->record.troubles, <=, 4);
    } else {
        f->ahead_us = QMP_GREETING_US;
        RUN_UNTIL(f, fake_host_look(f->host, "tested").connections == 2);
        g_assert_false(guest(f, "tested")->up);
    }
    check_neighbour(f);
}

/* Those that are up until they are spoken to: what is their end? */
static void test_hostile(Fixture *f, gconstpointer data)
{
    FakeScript script = GPOINTER_TO_INT(data);

    begin(f, script);
    RUN_UNTIL(f, is_up(f, "tested"));
    send_query(guest(f, "tested"), 1);
    RUN_UNTIL(f, !is_up(f, "tested"));
    check_neighbour(f);
    /* And once more, when the back-off is over. */
    RUN_UNTIL(f, is_up(f, "tested"));
    g_assert_cmpuint(fake_host_look(f->host, "tested").connections, ==, 2);
    g_assert_cmpuint(f->record.answers, ==, 0);
    if (script != FAKE_CLOSES) {
        g_assert_cmpuint(f->record.troubles, ==, 1);
    }
}

/* Silence is no offence here: the policy has the time-outs. */
static void test_silent(Fixture *f, gconstpointer data)
{
    begin(f, GPOINTER_TO_INT(data));
    RUN_UNTIL(f, is_up(f, "tested"));
    for (uint32_t tag = 1; tag < 5000; tag++) {
        send_query(guest(f, "tested"), tag);
        send_set(guest(f, "tested"), tag, tag);
    }
    run_for(f, 100 * 1000);
    g_assert_true(is_up(f, "tested"));
    g_assert_cmpuint(f->record.answers, ==, 0);
    check_neighbour(f);
}

static void test_out_of_order(Fixture *f, gconstpointer data)
{
    (void)data;
    begin(f, FAKE_OUT_OF_ORDER);
    RUN_UNTIL(f, is_up(f, "tested"));
    for (uint32_t tag = 1; tag <= 5; tag++) {
        send_set(guest(f, "tested"), tag, tag * 10);
        RUN_UNTIL(f, f->record.answers == tag);
        g_assert_cmpuint(f->record.last.tag, ==, tag);
        g_assert_cmpint(f->record.last.verdict, ==, GUEST_OK);
        g_assert_cmpuint(fake_host_look(f->host, "tested").requested_ms, ==, tag * 10);
    }
    check_neighbour(f);
}

static void test_flood(Fixture *f, gconstpointer data)
{
    int64_t cpu_us, start_us, closed_us;
    unsigned int connections = 1;

    (void)data;
    begin(f, FAKE_FLOOD);
    RUN_UNTIL(f, is_up(f, "tested"));
    send_query(guest(f, "tested"), 1);
    RUN_UNTIL(f, f->record.troubles == 1);

    /* Served slowly, and it costs next to nothing. */
    start_us = g_get_monotonic_time();
    cpu_us = clock();
    for (int i = 0; i < 10; i++) {
        check_neighbour(f);
        run_for(f, 50 * 1000);
    }
    cpu_us = clock() - cpu_us;
    g_assert_true(is_up(f, "tested"));
    g_assert_cmpuint(f->record.troubles, ==, 1);
    g_assert_cmpuint(f->record.applied, >, 0);
    g_assert_cmpuint(f->record.applied, <=, QMP_EVENTS_BURST + 4 * QMP_EVENTS_PER_S);
    g_test_message("%" G_GINT64_FORMAT " of %" G_GINT64_FORMAT " us of CPU, "
                   "the fake server's included",
                   cpu_us, g_get_monotonic_time() - start_us);

    /* It is no burst, as it goes on: the connection is not worth keeping. */
    while (is_up(f, "tested")) {
        g_assert_cmpint(f->ahead_us, <, QMP_FLOOD_US);
        f->ahead_us += G_USEC_PER_SEC / 2;
        /* The server has to keep up, even where all runs slowly. */
        run_for(f, 100 * 1000);
    }
    g_assert_cmpuint(f->record.troubles, ==, 2);
    /* And at the next floods we wait for nothing, but for ever longer. */
    closed_us = f->ahead_us;
    for (int64_t retry_us = QMP_FLOOD_RETRY_MIN_US; retry_us <= QMP_RETRY_MAX_US;
         retry_us *= 2) {
        f->ahead_us = closed_us + retry_us - G_USEC_PER_SEC;
        run_for(f, 20 * 1000);
        g_assert_cmpuint(fake_host_look(f->host, "tested").connections, ==, connections);
        f->ahead_us = closed_us + retry_us;
        RUN_UNTIL(f, fake_host_look(f->host, "tested").connections > connections);
        connections++;
        f->ahead_us = 0;
        RUN_UNTIL(f, is_up(f, "tested"));
        send_query(guest(f, "tested"), 1);
        RUN_UNTIL(f, !is_up(f, "tested"));
        g_assert_cmpuint(f->record.troubles, ==, connections + 1);
        check_neighbour(f);
        closed_us = 0;
    }
}

/* Much at once, and then as ever: QEMU has told of a thousand bad sectors. */
static void test_burst(Fixture *f, gconstpointer data)
{
    unsigned int before;

    (void)data;
    begin(f, FAKE_BURST);
    RUN_UNTIL(f, is_up(f, "tested"));
    send_query(guest(f, "tested"), 1);
    RUN_UNTIL(f, f->record.troubles == 1);
    for (int64_t us = 0; us < 2 * QMP_FLOOD_US; us += G_USEC_PER_SEC / 2) {
        f->ahead_us += G_USEC_PER_SEC / 2;
        run_for(f, 20 * 1000);
        check_neighbour(f);
    }
    before = f->record.answers;
    send_query(guest(f, "tested"), 2);
    RUN_UNTIL(f, f->record.answers > before);
    g_assert_cmpuint(f->record.last.tag, ==, 2);
    g_assert_cmpuint(f->record.troubles, ==, 1);
    g_assert_cmpuint(fake_host_look(f->host, "tested").connections, ==, 1);
}

static void test_lies(Fixture *f, gconstpointer data)
{
    (void)data;
    begin(f, FAKE_LIES);
    RUN_UNTIL(f, is_up(f, "tested"));
    send_query(guest(f, "tested"), 1);
    RUN_UNTIL(f, f->record.answers == 1);
    g_assert_cmpint(f->record.last.verdict, ==, GUEST_REFUSED);
    g_assert_cmpstr(f->record.last_error, ==,
                    "query-balloon-report-delay: 'offered' is no boolean");
    check_neighbour(f);
}

/* The folder */

static void test_comes_and_goes(Fixture *f, gconstpointer data)
{
    (void)data;
    fake_host_add(f->host, "neighbour", FAKE_GOOD);
    start(f);
    RUN_UNTIL(f, is_up(f, "neighbour"));

    for (int i = 0; i < 3; i++) {
        fake_host_add(f->host, "tested", FAKE_GOOD);
        RUN_UNTIL(f, is_up(f, "tested"));
        send_set(guest(f, "tested"), i, 50);
        fake_host_remove(f->host, "tested");
        RUN_UNTIL(f, !guest(f, "tested"));
    }
    check_neighbour(f);
}

/* What QEMU leaves behind when it is killed, and other files. */
static void test_no_sockets(Fixture *f, gconstpointer data)
{
    g_autofree char *file = g_build_filename(f->folder, "file.sock", NULL);
    g_autofree char *hidden = g_build_filename(f->folder, ".x.sock", NULL);
    g_autofree char *folder = g_build_filename(f->folder, "folder", NULL);
    g_autofree char *odd = g_build_filename(f->folder, "odd\nname", NULL);

    (void)data;
    g_assert_true(g_file_set_contents(file, "x", 1, NULL));
    g_assert_cmpint(g_mkdir(folder, 0700), ==, 0);
    fake_host_add(f->host, ".x", FAKE_GOOD);
    fake_host_add(f->host, "odd\nname", FAKE_GOOD);
    fake_host_add(f->host, "neighbour", FAKE_GOOD);
    start(f);
    RUN_UNTIL(f, is_up(f, "neighbour"));
    run_for(f, 50 * 1000);
    g_assert_cmpuint(g_hash_table_size(f->record.guests), ==, 1);
    g_unlink(file);
    g_rmdir(folder);
}

static void test_same_name(Fixture *f, gconstpointer data)
{
    g_autofree char *from = g_build_filename(f->folder, "tested.sock", NULL);
    g_autofree char *to = g_build_filename(f->folder, "tested.qmp", NULL);

    (void)data;
    begin(f, FAKE_GOOD);
    RUN_UNTIL(f, is_up(f, "tested"));
    g_assert_cmpint(symlink(from, to), ==, 0);
    RUN_UNTIL(f, f->record.troubles > 0);
    g_assert_cmpuint(g_hash_table_size(f->record.guests), ==, 2);
    g_assert_cmpuint(fake_host_look(f->host, "tested").connections, ==, 1);
    g_unlink(to);
}

static void test_no_folder(Fixture *f, gconstpointer data)
{
    g_autofree char *folder = g_strdup(f->folder);

    (void)data;
    g_assert_cmpint(g_rmdir(folder), ==, 0);
    start(f);
    run_for(f, 50 * 1000);
    g_assert_cmpuint(f->record.troubles, ==, 1);

    /* It is there, and is seen at the next scan. */
    g_assert_cmpint(g_mkdir(folder, 0700), ==, 0);
    fake_host_add(f->host, "late", FAKE_GOOD);
    f->ahead_us = 31 * G_USEC_PER_SEC;
    RUN_UNTIL(f, guest(f, "late"));
    f->ahead_us = 0;
    RUN_UNTIL(f, is_up(f, "late"));
    g_assert_cmpuint(f->record.troubles, ==, 1);
}

static void add(const char *name, FakeScript script,
                void (*test)(Fixture *, gconstpointer))
{
    g_autofree char *path = g_strdup_printf("/qmp/%s/%s", name, fake_script_name(script));

    g_test_add(path, Fixture, GINT_TO_POINTER(script), set_up, test, tear_down);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/text/scan", test_scan);
    g_test_add_func("/text/scan-depth", test_scan_depth);
    g_test_add_func("/text/message", test_message);
    g_test_add_func("/text/info", test_info);
    g_test_add_func("/text/hints", test_hints);
    g_test_add_func("/text/format", test_format);

    add("served", FAKE_GOOD, test_good);
    add("served", FAKE_BYTEWISE, test_good);
    add("served", FAKE_LATE_GREETING, test_good);
    add("served", FAKE_OLD, test_old);
    add("served", FAKE_REFUSES, test_refuses);
    add("served", FAKE_MIGRATES, test_migrates);
    add("served", FAKE_OUT_OF_ORDER, test_out_of_order);
    add("served", FAKE_LIES, test_lies);
    add("served", FAKE_FLOOD, test_flood);
    add("served", FAKE_BURST, test_burst);
    add("never-up", FAKE_NO_GREETING, test_never_up);
    add("never-up", FAKE_NO_HANDSHAKE, test_never_up);
    add("never-up", FAKE_GARBAGE, test_never_up);
    add("never-up", FAKE_NOT_QMP, test_never_up);
    add("closed", FAKE_OVERSIZED, test_hostile);
    add("closed", FAKE_DEEP, test_hostile);
    add("closed", FAKE_CLOSES, test_hostile);
    add("closed", FAKE_WRONG_ID, test_hostile);
    add("closed", FAKE_NO_ID, test_hostile);
    add("silent", FAKE_STUCK, test_silent);
    add("silent", FAKE_DEAF, test_silent);

    add("folder/comes-and-goes", FAKE_GOOD, test_comes_and_goes);
    add("folder/no-sockets", FAKE_GOOD, test_no_sockets);
    add("folder/same-name", FAKE_GOOD, test_same_name);
    add("folder/missing", FAKE_GOOD, test_no_folder);
    return g_test_run();
}
