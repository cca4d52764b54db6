/*
 * The whole daemon as a process, with guests and a /proc that are made up
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>
#include <glib/gstdio.h>
#include <gio/gio.h>

#include "fake-qmp.h"

#define GUESTS 5
#define NONE UINT32_MAX

typedef struct Fixture {
    char *folder;
    char *binary;
    FakeHost *host;
    GSubprocess *daemon;
    int64_t started_us;
} Fixture;

static char *path_of(Fixture *f, const char *name)
{
    return g_build_filename(f->folder, name, NULL);
}

static void put_file(Fixture *f, const char *name, const char *text)
{
    g_autofree char *path = path_of(f, name);
    g_autofree char *other = g_strconcat(path, ".new", NULL);
    FILE *stream;

    /* In place: the daemon keeps the file open, as it may with /proc. */
    if (g_str_has_suffix(name, ".conf")) {
        g_assert_true(g_file_set_contents(path, text, -1, NULL));
        return;
    }
    stream = g_fopen(path, "r+");
    if (!stream) {
        stream = g_fopen(path, "w");
    }
    g_assert_nonnull(stream);
    fputs(text, stream);
    g_assert_cmpint(fclose(stream), ==, 0);
}

/* Of the same length always, so that no reader sees a mixture of two. */
static void set_available(Fixture *f, unsigned int mib)
{
    g_autofree char *text =
        g_strdup_printf("MemTotal:       %10u kB\nMemFree:        %10u kB\n"
                        "MemAvailable:   %10u kB\n",
                        65536 * 1024, mib * 1024, mib * 1024);

    put_file(f, "proc/meminfo", text);
}

static void set_pressure(Fixture *f, unsigned int some_us, unsigned int full_us)
{
    g_autofree char *text =
        g_strdup_printf("some avg10=0.00 avg60=0.00 avg300=0.00 total=%010u\n"
                        "full avg10=0.00 avg60=0.00 avg300=0.00 total=%010u\n",
                        some_us, full_us);

    put_file(f, "proc/pressure/memory", text);
}

#define POLICY                                                                           \
    "[policy]\nfloor-mib = 1000\nhold-ms = 300\nhold-max-ms = 300\n"                     \
    "psi-veto-ms = 300\njitter-ms = 100\n"

static void put_config(Fixture *f, const char *more)
{
    g_autofree char *text = g_strdup_printf(
        "[daemon]\nqmp-folder = %s/qmp\ncontrol-socket = %s/control\n"
        "lock-file = %s/lock\nproc-folder = %s/proc\npsi = totals\n"
        "metrics-file = %s/metrics.prom\nmetrics-interval-s = 1\n" POLICY "%s",
        f->folder, f->folder, f->folder, f->folder, f->folder, more);

    put_file(f, "steer.conf", text);
}

static void set_up(Fixture *f, gconstpointer data)
{
    static const char *const folders[] = { "proc", "proc/pressure", "qmp" };
    g_autofree char *qmp = NULL;

    (void)data;
    f->binary = g_strdup(g_getenv("BALLOON_STEER"));
    g_assert_nonnull(f->binary);
    f->folder = g_dir_make_tmp("steer-daemon-XXXXXX", NULL);
    for (gsize i = 0; i < G_N_ELEMENTS(folders); i++) {
        g_autofree char *path = path_of(f, folders[i]);

        g_assert_cmpint(g_mkdir(path, 0700), ==, 0);
    }
    put_file(f, "proc/zoneinfo", "Node 0, zone Normal\n        high 1000\n");
    set_available(f, 20000);
    set_pressure(f, 0, 0);
    put_config(f, "");
    qmp = path_of(f, "qmp");
    f->host = fake_host_new(qmp);
    for (int i = 0; i < GUESTS; i++) {
        g_autofree char *name = g_strdup_printf("vm%d", i);

        fake_host_add(f->host, name, FAKE_GOOD);
    }
}

static void remove_tree(const char *path)
{
    g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
    const char *name;

    while (dir && (name = g_dir_read_name(dir)) != NULL) {
        g_autofree char *child = g_build_filename(path, name, NULL);

        remove_tree(child);
    }
    g_remove(path);
}

static void stop_daemon(Fixture *f, int signal)
{
    if (f->daemon) {
        g_subprocess_send_signal(f->daemon, signal);
        g_assert_true(g_subprocess_wait(f->daemon, NULL, NULL));
        if (signal != SIGKILL) {
            g_assert_true(g_subprocess_get_if_exited(f->daemon));
            g_assert_cmpint(g_subprocess_get_exit_status(f->daemon), ==, 0);
        }
        g_clear_object(&f->daemon);
    }
}

static void tear_down(Fixture *f, gconstpointer data)
{
    (void)data;
    stop_daemon(f, SIGTERM);
    fake_host_free(f->host);
    remove_tree(f->folder);
    g_free(f->folder);
    g_free(f->binary);
}

static GSubprocess *spawn(Fixture *f, GSubprocessFlags flags, const char *first, ...)
{
    g_autoptr(GPtrArray) words = g_ptr_array_new();
    g_autofree char *config = path_of(f, "steer.conf");
    g_autoptr(GError) error = NULL;
    GSubprocess *process;
    const char *word;
    va_list arguments;

    g_ptr_array_add(words, f->binary);
    g_ptr_array_add(words, (char *)first);
    g_ptr_array_add(words, (char *)"--config");
    g_ptr_array_add(words, config);
    va_start(arguments, first);
    while ((word = va_arg(arguments, const char *)) != NULL) {
        g_ptr_array_add(words, (char *)word);
    }
    va_end(arguments);
    g_ptr_array_add(words, NULL);
    process = g_subprocess_newv((const char *const *)words->pdata, flags, &error);
    g_assert_no_error(error);
    return process;
}

/* Whatever becomes of the test, no daemon is left behind. */
static void end_with_us(gpointer opaque)
{
    (void)opaque;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* Its log goes to a file, for tests that read it. */
static void start_daemon(Fixture *f, const char *option)
{
    g_autoptr(GSubprocessLauncher) launcher = NULL;
    g_autofree char *log = path_of(f, "log");
    g_autofree char *config = path_of(f, "steer.conf");
    g_autoptr(GError) error = NULL;

    launcher = g_subprocess_launcher_new(G_SUBPROCESS_FLAGS_NONE);
    g_subprocess_launcher_set_stderr_file_path(launcher, log);
    g_subprocess_launcher_set_child_setup(launcher, end_with_us, NULL, NULL);
    f->daemon = g_subprocess_launcher_spawn(launcher, &error, f->binary, "run",
                                            "--config", config, option, NULL);
    g_assert_no_error(error);
    f->started_us = g_get_monotonic_time();
}

static char *read_file(Fixture *f, const char *name)
{
    g_autofree char *path = path_of(f, name);
    char *text = NULL;

    if (!g_file_get_contents(path, &text, NULL, NULL)) {
        return g_strdup("");
    }
    return text;
}

static bool logged(Fixture *f, const char *words)
{
    g_autofree char *log = read_file(f, "log");

    return strstr(log, words) != NULL;
}

#define WAIT_UNTIL(f, condition, ms)                                                     \
    do {                                                                                 \
        int64_t end_us_ = g_get_monotonic_time();                                        \
        end_us_ += INT64_C(1000) * (ms);                                                 \
        while (!(condition)) {                                                           \
            if (g_get_monotonic_time() > end_us_) {                                      \
                g_autofree char *log_ = read_file(f, "log");                             \
                g_error("not in %d ms: %s; the daemon's log:\n%s", (ms), #condition,     \
                        log_);                                                           \
            }                                                                            \
            g_usleep(2000);                                                              \
        }                                                                                \
    } while (0)

/* A sanitizer or valgrind takes its time. */
#define SOON_MS 30000

static FakeGuest look(Fixture *f, int i)
{
    return fake_host_look_at(f->host, i);
}

static bool all_between(Fixture *f, uint32_t min_ms, uint32_t max_ms)
{
    for (int i = 0; i < GUESTS; i++) {
        FakeGuest guest = look(f, i);

        if (guest.requested_ms < min_ms || guest.requested_ms > max_ms) {
            return false;
        }
    }
    return true;
}

static bool all_are(Fixture *f, uint32_t ms)
{
    return all_between(f, ms, ms);
}

static char *run_command(Fixture *f, int expected, const char *first, const char *second,
                         const char *third, const char *fourth)
{
    g_autoptr(GSubprocess) process = NULL;
    g_autoptr(GError) error = NULL;
    char *output = NULL;

    process = spawn(f, G_SUBPROCESS_FLAGS_STDOUT_PIPE | G_SUBPROCESS_FLAGS_STDERR_MERGE,
                    first, second, third, fourth, NULL);
    g_subprocess_communicate_utf8(process, NULL, NULL, &output, NULL, &error);
    g_assert_no_error(error);
    if (!g_subprocess_get_if_exited(process) ||
        g_subprocess_get_exit_status(process) != expected) {
        g_error("balloon-steer %s %s %s: %s", first, second, third, output);
    }
    return output;
}

#define ASSERT_SAYS(output, words)                                                       \
    do {                                                                                 \
        if (!strstr(output, words)) {                                                    \
            g_error("'%s' is not in: %s", words, output);                                \
        }                                                                                \
    } while (0)

static void start_calm(Fixture *f)
{
    start_daemon(f, NULL);
    WAIT_UNTIL(f, all_are(f, 30000), SOON_MS);
}

/* The story of the project */

static void test_steers(Fixture *f, gconstpointer data)
{
    FakeGuest guest;
    int64_t crossed_us, last_us = 0;

    (void)data;
    start_calm(f);
    guest = look(f, 0);
    g_assert_cmpuint(guest.lease_ms, ==, 1800 * 1000);

    set_available(f, 900);
    crossed_us = g_get_monotonic_time();
    WAIT_UNTIL(f, all_are(f, 50), SOON_MS);
    for (int i = 0; i < GUESTS; i++) {
        guest = look(f, i);
        g_assert_cmpuint(guest.lease_ms, ==, 10000);
        last_us = MAX(last_us, guest.set_us);
    }
    g_test_message("all short %" G_GINT64_FORMAT " ms after the memory was "
                   "gone, tick included",
                   (last_us - crossed_us) / 1000);
    g_assert_cmpint(last_us - crossed_us, <, 1200 * 1000);

    set_available(f, 20000);
    WAIT_UNTIL(f, logged(f, "-> CALM"), SOON_MS);
    WAIT_UNTIL(f, all_between(f, 10000, 60000), SOON_MS);

    stop_daemon(f, SIGTERM);
    g_assert_true(all_are(f, NONE));
    for (int i = 0; i < GUESTS; i++) {
        g_assert_cmpuint(look(f, i).lease_ends, ==, 0);
        g_assert_cmpuint(look(f, i).withdrawals, ==, 1);
    }
    g_assert_true(logged(f, "CALM -> URGENT: available memory"));
}

static void test_steps_down_one_at_a_time(Fixture *f, gconstpointer data)
{
    g_autofree char *log = NULL;
    const char *at;
    static const char *const steps[] = {
        "URGENT -> TIGHT",
        "TIGHT -> WATCH",
        "WATCH -> EASY",
        "EASY -> CALM",
    };

    (void)data;
    start_calm(f);
    set_available(f, 900);
    WAIT_UNTIL(f, all_are(f, 50), SOON_MS);
    set_available(f, 20000);
    WAIT_UNTIL(f, logged(f, "EASY -> CALM"), SOON_MS);
    log = read_file(f, "log");
    at = log;
    for (gsize i = 0; i < G_N_ELEMENTS(steps); i++) {
        at = strstr(at, steps[i]);
        g_assert_nonnull(at);
    }
}

static void test_pressure(Fixture *f, gconstpointer data)
{
    (void)data;
    set_available(f, 7000);
    start_daemon(f, NULL);
    WAIT_UNTIL(f, all_are(f, 10000), SOON_MS);
    /* Half of the last second or two. */
    set_pressure(f, 1000000, 0);
    WAIT_UNTIL(f, all_are(f, 50), SOON_MS);
    g_assert_true(logged(f, "EASY -> URGENT: PSI some"));
}

static void test_no_pressure(Fixture *f, gconstpointer data)
{
    g_autofree char *pressure = path_of(f, "proc/pressure/memory");

    (void)data;
    g_unlink(pressure);
    start_calm(f);
    g_assert_true(logged(f, "no pressure stall information"));
    set_available(f, 900);
    WAIT_UNTIL(f, all_are(f, 50), SOON_MS);
}

static void test_unreadable(Fixture *f, gconstpointer data)
{
    (void)data;
    start_calm(f);
    set_available(f, 900);
    WAIT_UNTIL(f, all_are(f, 50), SOON_MS);
    put_file(f, "proc/meminfo", "nonsense\n");
    /* No short delay is left behind. */
    WAIT_UNTIL(f, all_between(f, 2000, NONE), SOON_MS);
    g_assert_true(logged(f, "the host's memory cannot be used"));
    set_available(f, 900);
    WAIT_UNTIL(f, all_are(f, 50), SOON_MS);
    g_assert_true(logged(f, "the host's memory can be used again"));
}

/* Failure */

static void test_sigkill(Fixture *f, gconstpointer data)
{
    (void)data;
    put_config(f, "short-lease-ms = 1500\n");
    start_calm(f);
    set_available(f, 900);
    WAIT_UNTIL(f, all_are(f, 50), SOON_MS);
    stop_daemon(f, SIGKILL);
    g_assert_true(all_are(f, 50));
    WAIT_UNTIL(f, all_are(f, NONE), 2500);
    for (int i = 0; i < GUESTS; i++) {
        g_assert_cmpuint(look(f, i).lease_ends, ==, 1);
    }
}

/* The same leases, renewed by a daemon that lives. */
static void test_renews(Fixture *f, gconstpointer data)
{
    (void)data;
    put_config(f, "short-lease-ms = 1500\n");
    set_available(f, 900);
    start_daemon(f, NULL);
    WAIT_UNTIL(f, all_are(f, 50), SOON_MS);
    g_usleep(3 * G_USEC_PER_SEC);
    g_assert_true(all_are(f, 50));
    for (int i = 0; i < GUESTS; i++) {
        g_assert_cmpuint(look(f, i).lease_ends, ==, 0);
        g_assert_cmpuint(look(f, i).sets, >=, 4);
    }
}

static void test_withdraw_after_crash(Fixture *f, gconstpointer data)
{
    (void)data;
    start_calm(f);
    set_available(f, 900);
    WAIT_UNTIL(f, all_are(f, 50), SOON_MS);
    stop_daemon(f, SIGKILL);
    /* What the unit's ExecStopPost does. */
    g_free(run_command(f, 0, "withdraw", "--all", NULL, NULL));
    g_assert_true(all_are(f, NONE));
}

/*
 * libvirtd takes the connection and says no more: the threads that talk to it
 * hang, and nothing else does.
 */
static void test_libvirt_hangs(Fixture *f, gconstpointer data)
{
    g_autofree char *path = path_of(f, "libvirtd");
    g_autofree char *output = NULL;
    g_autofree char *config =
        g_strdup_printf("[daemon]\nlibvirt-uri = qemu+unix:///system?socket=%s\n", path);
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int64_t start_us;
    int fd;

    (void)data;
    g_strlcpy(address.sun_path, path, sizeof(address.sun_path));
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    g_assert_cmpint(bind(fd, (struct sockaddr *)&address, sizeof(address)), ==, 0);
    g_assert_cmpint(listen(fd, 8), ==, 0);
    put_config(f, config);
    start_calm(f);
    set_available(f, 900);
    WAIT_UNTIL(f, all_are(f, 50), SOON_MS);
    start_us = g_get_monotonic_time();
    stop_daemon(f, SIGTERM);
    /* TimeoutStopSec of the unit is 15 s. */
    g_assert_cmpint(g_get_monotonic_time() - start_us, <, 10 * G_USEC_PER_SEC);
    g_assert_true(all_are(f, NONE));
    g_assert_true(logged(f, "a call to a VM hangs"));

    /* And its ExecStopPost. */
    start_us = g_get_monotonic_time();
    output = run_command(f, 1, "withdraw", "--all", NULL, NULL);
    ASSERT_SAYS(output, "a call to libvirt hangs");
    g_assert_cmpint(g_get_monotonic_time() - start_us, <, 10 * G_USEC_PER_SEC);
    for (int i = 0; i < GUESTS; i++) {
        g_assert_cmpuint(look(f, i).withdrawals, >=, 2);
    }
    close(fd);
}

static void test_second_daemon(Fixture *f, gconstpointer data)
{
    g_autofree char *output = NULL;
    g_autofree char *pid = NULL;

    (void)data;
    start_calm(f);
    output = run_command(f, 1, "run", NULL, NULL, NULL);
    ASSERT_SAYS(output, "another balloon-steer runs already, process ");
    ASSERT_SAYS(output, g_subprocess_get_identifier(f->daemon));
    ASSERT_SAYS(output, "lock");
    g_assert_true(all_are(f, 30000));
}

static void test_hostile_beside(Fixture *f, gconstpointer data)
{
    static const FakeScript hostile[] = {
        FAKE_STUCK,   FAKE_DEAF,        FAKE_FLOOD,     FAKE_CLOSES,   FAKE_LIES,
        FAKE_GARBAGE, FAKE_NO_GREETING, FAKE_OVERSIZED, FAKE_WRONG_ID,
    };
    int64_t crossed_us, last_us = 0;

    (void)data;
    for (gsize i = 0; i < G_N_ELEMENTS(hostile); i++) {
        fake_host_add(f->host, fake_script_name(hostile[i]), hostile[i]);
    }
    start_calm(f);
    set_available(f, 900);
    crossed_us = g_get_monotonic_time();
    WAIT_UNTIL(f, all_are(f, 50), SOON_MS);
    for (int i = 0; i < GUESTS; i++) {
        last_us = MAX(last_us, look(f, i).set_us);
    }
    g_assert_cmpint(last_us - crossed_us, <, 1200 * 1000);
}

static void test_migrating_is_held(Fixture *f, gconstpointer data)
{
    (void)data;
    fake_host_add(f->host, "moving", FAKE_MIGRATES);
    start_calm(f);
    set_available(f, 900);
    WAIT_UNTIL(f, all_are(f, 50), SOON_MS);
    g_usleep(300 * 1000);
    g_assert_cmpuint(fake_host_look(f->host, "moving").requested_ms, !=, 50);
}

/* Operators */

static void test_status(Fixture *f, gconstpointer data)
{
    g_autofree char *status = NULL;
    g_autofree char *json = NULL;
    g_autofree char *why = NULL;
    g_autofree char *nobody = NULL;
    g_auto(GStrv) lines = NULL;

    (void)data;
    start_calm(f);
    set_available(f, 900);
    WAIT_UNTIL(f, all_are(f, 50), SOON_MS);
    status = run_command(f, 0, "status", NULL, NULL, NULL);
    ASSERT_SAYS(status, "URGENT for ");
    ASSERT_SAYS(status, "because of: available memory; delay 50 ms");
    ASSERT_SAYS(status, "vm4");
    lines = g_strsplit(status, "\n", -1);
    for (char **line = lines; *line; line++) {
        g_assert_cmpuint(strlen(*line), <=, 80);
    }
    json = run_command(f, 0, "status", "--json", NULL, NULL);
    ASSERT_SAYS(json, "\"state\" : \"URGENT\"");
    why = run_command(f, 0, "explain", "vm1", NULL, NULL);
    ASSERT_SAYS(why, "It should have a delay of 50 ms, because: host state.");
    nobody = run_command(f, 1, "explain", "nobody", NULL, NULL);
    ASSERT_SAYS(nobody, "there is no VM 'nobody'");
}

static void test_no_daemon(Fixture *f, gconstpointer data)
{
    g_autofree char *output = run_command(f, 1, "status", NULL, NULL, NULL);

    (void)data;
    ASSERT_SAYS(output, "no daemon is running");
    g_free(run_command(f, 0, "set", "vm2", "75", "--lease=100"));
    g_assert_cmpuint(look(f, 2).requested_ms, ==, 75);
    g_assert_cmpuint(look(f, 2).lease_ms, ==, 100000);
    g_assert_cmpuint(look(f, 1).sets, ==, 0);
    g_free(run_command(f, 0, "withdraw", "vm2", NULL, NULL));
    g_assert_cmpuint(look(f, 2).requested_ms, ==, NONE);
    g_free(run_command(f, 1, "withdraw", "nobody", NULL, NULL));
    g_free(run_command(f, 1, "pin", "vm2", "50", "--for=10"));
    g_free(run_command(f, 2, "pin", "vm2", "50", NULL));
    g_free(run_command(f, 2, "set", "vm2", "600001", NULL));
    g_free(run_command(f, 2, "set", "vm2", "-5", NULL));
    g_free(run_command(f, 2, "nonsense", NULL, NULL, NULL));
}

static void test_pin(Fixture *f, gconstpointer data)
{
    g_autofree char *why = NULL;

    (void)data;
    start_calm(f);
    g_free(run_command(f, 0, "pin", "vm3", "123", "--for=1h"));
    WAIT_UNTIL(f, look(f, 3).requested_ms == 123, SOON_MS);
    set_available(f, 900);
    WAIT_UNTIL(f, look(f, 2).requested_ms == 50, SOON_MS);
    g_assert_cmpuint(look(f, 3).requested_ms, ==, 123);
    why = run_command(f, 0, "explain", "vm3", NULL, NULL);
    ASSERT_SAYS(why, "Pinned at 123 ms by an operator");

    g_free(run_command(f, 0, "withdraw", "vm3", NULL, NULL));
    WAIT_UNTIL(f, look(f, 3).requested_ms == NONE, SOON_MS);
    g_free(run_command(f, 0, "unpin", "vm3", NULL, NULL));
    WAIT_UNTIL(f, look(f, 3).requested_ms == 50, SOON_MS);
    g_free(run_command(f, 1, "unpin", "vm3", NULL, NULL));
}

static void test_pin_ends(Fixture *f, gconstpointer data)
{
    (void)data;
    start_calm(f);
    g_free(run_command(f, 0, "set", "vm3", "123", "--lease=1"));
    WAIT_UNTIL(f, look(f, 3).requested_ms == 123, SOON_MS);
    WAIT_UNTIL(f, look(f, 3).requested_ms == 30000, SOON_MS);
}

static void test_dry_run(Fixture *f, gconstpointer data)
{
    (void)data;
    start_daemon(f, "--dry-run");
    WAIT_UNTIL(f, logged(f, "vm4: would be asked for 30000 ms"), SOON_MS);
    set_available(f, 900);
    WAIT_UNTIL(f, logged(f, "vm4: would be asked for 50 ms"), SOON_MS);
    stop_daemon(f, SIGTERM);
    for (int i = 0; i < GUESTS; i++) {
        g_assert_cmpuint(look(f, i).sets + look(f, i).withdrawals, ==, 0);
        g_assert_cmpuint(look(f, i).queries, >, 0);
    }
}

static void test_verbose(Fixture *f, gconstpointer data)
{
    (void)data;
    start_calm(f);
    g_assert_false(logged(f, "asked for"));
    stop_daemon(f, SIGTERM);
    start_daemon(f, "--verbose");
    WAIT_UNTIL(f, logged(f, "vm4: asked for 30000 ms, lease 1800 s (host state)"),
               SOON_MS);
    stop_daemon(f, SIGTERM);
    g_assert_true(logged(f, "vm4: the request is withdrawn (stopping)"));
}

static void test_reload(Fixture *f, gconstpointer data)
{
    (void)data;
    start_calm(f);
    put_config(f, "colour = blue\n[vm vm1]\nsteer = no\n[vm vm2*]\n"
                  "max-delay-ms = 5000\n[vm *3]\nmax-delay-ms = 6000\n");
    g_subprocess_send_signal(f->daemon, SIGHUP);
    WAIT_UNTIL(f, look(f, 1).requested_ms == NONE, SOON_MS);
    WAIT_UNTIL(f, look(f, 2).requested_ms == 5000, SOON_MS);
    WAIT_UNTIL(f, look(f, 3).requested_ms == 6000, SOON_MS);
    g_assert_cmpuint(look(f, 4).requested_ms, ==, 30000);
    g_assert_true(logged(f, "[policy] has no key 'colour': ignored"));

    /* A bad one changes nothing. */
    put_config(f, "urgent-delay-ms = fast\n");
    g_subprocess_send_signal(f->daemon, SIGHUP);
    WAIT_UNTIL(f, logged(f, "the old configuration stays: "), SOON_MS);
    g_assert_true(logged(f, "[policy] urgent-delay-ms = fast: must be"));
    set_available(f, 900);
    WAIT_UNTIL(f, look(f, 4).requested_ms == 50, SOON_MS);
    g_assert_cmpuint(look(f, 1).requested_ms, ==, NONE);
}

static void test_metrics(Fixture *f, gconstpointer data)
{
    g_autofree char *text = NULL;
    g_auto(GStrv) lines = NULL;

    (void)data;
    start_calm(f);
    g_usleep(1500 * 1000);
    set_available(f, 900);
    WAIT_UNTIL(f,
               (g_free(text), text = read_file(f, "metrics.prom"),
                strstr(text, "asked_delay_seconds{vm=\"vm0\"} 0.050")),
               SOON_MS);
    ASSERT_SAYS(text, "balloon_steer_state{state=\"URGENT\"} 1\n");
    ASSERT_SAYS(text, "# TYPE balloon_steer_usable_bytes gauge\n"
                      "balloon_steer_usable_bytes 943718400\n");
    lines = g_strsplit(text, "\n", -1);
    for (char **line = lines; **line; line++) {
        g_assert_true(g_str_has_prefix(*line, "# HELP balloon_steer_") ||
                      g_str_has_prefix(*line, "# TYPE balloon_steer_") ||
                      g_str_has_prefix(*line, "balloon_steer_"));
    }
}

/* top */

#define ROWS 24
#define COLUMNS 80

typedef struct Terminal {
    int fd; /* the user's side */
    int inner_fd;
    struct termios modes;
    GSubprocess *top;
    GString *seen;
} Terminal;

/* A new session, so that its end and its keys are signals to it. */
static void take_terminal(gpointer opaque)
{
    (void)opaque;
    setsid();
    ioctl(STDIN_FILENO, TIOCSCTTY, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static void start_top(Fixture *f, Terminal *t)
{
    struct winsize size = { .ws_row = ROWS, .ws_col = COLUMNS };
    g_autoptr(GSubprocessLauncher) launcher = NULL;
    g_autofree char *config = path_of(f, "steer.conf");
    g_autoptr(GError) error = NULL;

    t->fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    g_assert_cmpint(t->fd, >=, 0);
    g_assert_cmpint(grantpt(t->fd), ==, 0);
    g_assert_cmpint(unlockpt(t->fd), ==, 0);
    t->inner_fd = open(ptsname(t->fd), O_RDWR | O_NOCTTY | O_CLOEXEC);
    g_assert_cmpint(ioctl(t->fd, TIOCSWINSZ, &size), ==, 0);
    g_assert_cmpint(tcgetattr(t->inner_fd, &t->modes), ==, 0);
    launcher = g_subprocess_launcher_new(G_SUBPROCESS_FLAGS_NONE);
    g_subprocess_launcher_take_stdin_fd(launcher, dup(t->inner_fd));
    g_subprocess_launcher_take_stdout_fd(launcher, dup(t->inner_fd));
    g_subprocess_launcher_take_stderr_fd(launcher, dup(t->inner_fd));
    g_subprocess_launcher_set_child_setup(launcher, take_terminal, NULL, NULL);
    t->top = g_subprocess_launcher_spawn(launcher, &error, f->binary, "top", "--config",
                                         config, "--delay=0.2", NULL);
    g_assert_no_error(error);
    t->seen = g_string_new(NULL);
}

/* What is shown until @words are, which are taken, too. */
static char *shown_until(Terminal *t, const char *words)
{
    int64_t end_us = g_get_monotonic_time() + SOON_MS * 1000;
    char *at, *before;

    while (!(at = strstr(t->seen->str, words))) {
        struct pollfd waits = { .fd = t->fd, .events = POLLIN };
        char text[4096];
        gssize got;

        if (g_get_monotonic_time() > end_us) {
            g_error("'%s' is not shown, but: %s", words, t->seen->str);
        }
        if (poll(&waits, 1, 100) == 1) {
            got = read(t->fd, text, sizeof(text));
            g_assert_cmpint(got, >, 0);
            g_string_append_len(t->seen, text, got);
        }
    }
    before = g_strndup(t->seen->str, at - t->seen->str);
    g_string_erase(t->seen, 0, at - t->seen->str + strlen(words));
    return before;
}

/* The next whole frame's lines, without what is only for the terminal. */
static char **next_frame(Terminal *t)
{
    g_autofree char *text = NULL;
    g_autoptr(GString) frame = NULL;

    g_free(shown_until(t, "\033[H"));
    text = shown_until(t, "\033[J");
    frame = g_string_new(text);
    g_string_replace(frame, "\033[K", "", 0);
    g_string_replace(frame, "\r", "", 0);
    g_assert_null(strchr(frame->str, '\033'));
    return g_strsplit(frame->str, "\n", -1);
}

static void close_top(Terminal *t)
{
    close(t->inner_fd);
    close(t->fd);
    g_object_unref(t->top);
    g_string_free(t->seen, TRUE);
}

/* It ends well, and the terminal is as it was. */
static void end_top(Terminal *t)
{
    struct termios modes;

    g_free(shown_until(t, "\033[?25h\033[?1049l"));
    g_assert_true(g_subprocess_wait_check(t->top, NULL, NULL));
    g_assert_cmpint(tcgetattr(t->inner_fd, &modes), ==, 0);
    g_assert_cmpuint(modes.c_lflag, ==, t->modes.c_lflag);
    g_assert_cmpmem(modes.c_cc, sizeof(modes.c_cc), t->modes.c_cc, sizeof(t->modes.c_cc));
    close_top(t);
}

static void press(Terminal *t, char key)
{
    g_assert_cmpint(write(t->fd, &key, 1), ==, 1);
}

static void test_top(Fixture *f, gconstpointer data)
{
    struct winsize small = { .ws_row = 10, .ws_col = COLUMNS };
    Terminal t;

    (void)data;
    for (int i = GUESTS; i < 100; i++) {
        g_autofree char *name = g_strdup_printf("a-name-that-is-rather-long-%d", i);

        fake_host_add(f->host, name, FAKE_GOOD);
    }
    start_calm(f);
    WAIT_UNTIL(f, look(f, 99).requested_ms == 30000, SOON_MS);
    start_top(f, &t);
    g_free(shown_until(&t, "\033[?1049h"));
    for (int i = 0; i < 3; i++) {
        g_auto(GStrv) lines = next_frame(&t);
        guint count = g_strv_length(lines);

        /* The last newline must not scroll the first line away. */
        g_assert_cmpuint(count, <=, ROWS);
        g_assert_cmpuint(count, >=, ROWS - 1);
        g_assert_true(g_str_has_prefix(lines[0], "CALM for "));
        for (guint line = 0; line < count; line++) {
            g_assert_cmpuint(strlen(lines[line]), <=, COLUMNS);
            g_test_message("|%s", lines[line]);
        }
        g_assert_true(g_str_has_prefix(lines[count - 2], "and 8"));
    }
    /* What changes is seen, on a terminal that is smaller now, too. */
    g_assert_cmpint(ioctl(t.fd, TIOCSWINSZ, &small), ==, 0);
    set_available(f, 900);
    for (int64_t end_us = g_get_monotonic_time() + SOON_MS * 1000;;) {
        g_auto(GStrv) lines = next_frame(&t);

        if (g_str_has_prefix(lines[0], "URGENT") && g_strv_length(lines) <= 10) {
            break;
        }
        g_assert_cmpint(g_get_monotonic_time(), <, end_us);
    }
    press(&t, 'q');
    end_top(&t);
}

static bool is_stopped(GSubprocess *process)
{
    g_autofree char *path =
        g_strdup_printf("/proc/%s/stat", g_subprocess_get_identifier(process));
    g_autofree char *text = NULL;

    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    return g_str_has_prefix(strrchr(text, ')'), ") T");
}

/* An interrupt, by its key; stopped and continued before. */
static void test_top_interrupted(Fixture *f, gconstpointer data)
{
    Terminal t;

    (void)data;
    start_calm(f);
    start_top(f, &t);
    g_strfreev(next_frame(&t));
    press(&t, '\x1a');
    g_free(shown_until(&t, "\033[?1049l"));
    WAIT_UNTIL(f, is_stopped(t.top), SOON_MS);
    g_subprocess_send_signal(t.top, SIGCONT);
    g_free(shown_until(&t, "\033[?1049h"));
    g_strfreev(next_frame(&t));
    press(&t, '\x03');
    end_top(&t);

    /* And the end of the daemon: what is said then is on the first screen. */
    start_top(f, &t);
    g_strfreev(next_frame(&t));
    stop_daemon(f, SIGTERM);
    g_free(shown_until(&t, "\033[?1049l"));
    g_free(shown_until(&t, "no daemon is running"));
    g_assert_true(g_subprocess_wait(t.top, NULL, NULL));
    g_assert_cmpint(g_subprocess_get_exit_status(t.top), ==, 1);
    close_top(&t);
}

/* The window is closed: no process stays. */
static void test_top_closed(Fixture *f, gconstpointer data)
{
    g_autoptr(GSubprocess) top = NULL;
    Terminal t;

    (void)data;
    start_calm(f);
    start_top(f, &t);
    g_strfreev(next_frame(&t));
    top = g_object_ref(t.top);
    close_top(&t);
    g_assert_true(g_subprocess_wait_check(top, NULL, NULL));
}

/* What systemd is told. */
static void test_notify(Fixture *f, gconstpointer data)
{
    g_autofree char *path = path_of(f, "notify");
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    bool ready = false, alive = false;
    char text[256];
    int fd;

    (void)data;
    g_strlcpy(address.sun_path, path, sizeof(address.sun_path));
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    g_assert_cmpint(bind(fd, (struct sockaddr *)&address, sizeof(address)), ==, 0);
    g_setenv("NOTIFY_SOCKET", path, TRUE);
    g_setenv("WATCHDOG_USEC", "2000000", TRUE);
    start_daemon(f, NULL);
    while (!ready || !alive) {
        gssize length = recv(fd, text, sizeof(text) - 1, 0);

        g_assert_cmpint(length, >, 0);
        text[length] = '\0';
        ready = ready || g_str_equal(text, "READY=1");
        alive = alive || g_str_equal(text, "WATCHDOG=1");
    }
    g_subprocess_send_signal(f->daemon, SIGHUP);
    do {
        text[MAX(recv(fd, text, sizeof(text) - 1, 0), 0)] = '\0';
    } while (!g_str_has_prefix(text, "RELOADING=1\nMONOTONIC_USEC="));
    g_unsetenv("NOTIFY_SOCKET");
    g_unsetenv("WATCHDOG_USEC");
    close(fd);
}

static void test_hot_plug(Fixture *f, gconstpointer data)
{
    (void)data;
    start_calm(f);
    fake_host_add(f->host, "late", FAKE_GOOD);
    WAIT_UNTIL(f, fake_host_look(f->host, "late").requested_ms == 30000, SOON_MS);
    fake_host_remove(f->host, "vm0");
    set_available(f, 900);
    WAIT_UNTIL(f, fake_host_look(f->host, "late").requested_ms == 50, SOON_MS);
    WAIT_UNTIL(f, fake_host_look(f->host, "vm4").requested_ms == 50, SOON_MS);
}

static void test_record(Fixture *f, gconstpointer data)
{
    g_autofree char *trace = path_of(f, "trace.csv");
    g_autofree char *output = NULL;
    g_autofree char *text = NULL;

    (void)data;
    start_calm(f);
    set_available(f, 900);
    WAIT_UNTIL(f, all_are(f, 50), SOON_MS);
    g_free(run_command(f, 0, "record", trace, "--count=5", "--every=0.2"));
    text = read_file(f, "trace.csv");
    ASSERT_SAYS(text, "vm4");
    output = run_command(f, 0, "simulate", trace, "--verbose", NULL);
    ASSERT_SAYS(output, "URGENT");
    ASSERT_SAYS(output, "vm4");

    /* The host alone, without a daemon. */
    stop_daemon(f, SIGTERM);
    g_free(run_command(f, 0, "record", trace, "--count=3", "--every=0.1"));
    g_free(output);
    output = run_command(f, 0, "simulate", trace, NULL, NULL);
    ASSERT_SAYS(output, "URGENT");
    g_free(run_command(f, 1, "simulate", "/nowhere/trace", NULL, NULL));
}

static void add(const char *name, void (*test)(Fixture *, gconstpointer))
{
    g_autofree char *path = g_strdup_printf("/daemon/%s", name);

    g_test_add(path, Fixture, NULL, set_up, test, tear_down);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    add("steers", test_steers);
    add("steps-down-one-at-a-time", test_steps_down_one_at_a_time);
    add("pressure", test_pressure);
    add("no-pressure", test_no_pressure);
    add("unreadable", test_unreadable);
    add("sigkill", test_sigkill);
    add("renews", test_renews);
    add("withdraw-after-crash", test_withdraw_after_crash);
    /* Set if the libvirt module was built. */
    if (g_getenv("BALLOON_STEER_MODULES")) {
        add("libvirt-hangs", test_libvirt_hangs);
    }
    add("second-daemon", test_second_daemon);
    add("hostile-beside", test_hostile_beside);
    add("migrating-is-held", test_migrating_is_held);
    add("status", test_status);
    add("no-daemon", test_no_daemon);
    add("pin", test_pin);
    add("pin-ends", test_pin_ends);
    add("dry-run", test_dry_run);
    add("verbose", test_verbose);
    add("reload", test_reload);
    add("metrics", test_metrics);
    add("top", test_top);
    add("top-interrupted", test_top_interrupted);
    add("top-closed", test_top_closed);
    add("notify", test_notify);
    add("hot-plug", test_hot_plug);
    add("record", test_record);
    return g_test_run();
}
