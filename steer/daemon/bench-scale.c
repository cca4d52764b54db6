/*
 * How the daemon does with a thousand VMs, some of them hostile
 *
 * usage: bench-scale BALLOON-STEER GUESTS HOSTILE ROUNDS SETTLE-S IDLE-S
 *
 * Calm is measured for IDLE-S after SETTLE-S: floods are cut off after some 10 s,
 * and attempts to connect to who misbehaves become rare in a minute.
 * Prints CSV: metric,value. The servers run in this process, on the same CPUs.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <glib/gstdio.h>

#include "fake-qmp.h"

typedef struct Bench {
    char *folder;
    FakeHost *host;
    unsigned int guests, hostile;
    pid_t daemon;
} Bench;

static void put(Bench *b, const char *name, const char *format, ...) G_GNUC_PRINTF(3, 4);

/* Without a moment in which the file is short: the length never changes. */
static void put(Bench *b, const char *name, const char *format, ...)
{
    g_autofree char *path = g_build_filename(b->folder, name, NULL);
    g_autofree char *text = NULL;
    va_list arguments;
    FILE *file;

    va_start(arguments, format);
    text = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    file = fopen(path, access(path, F_OK) == 0 ? "r+" : "w");
    g_assert_nonnull(file);
    fputs(text, file);
    fclose(file);
}

static void available(Bench *b, unsigned int mib)
{
    put(b, "proc/meminfo",
        "MemTotal:       %10u kB\nMemFree:        %10u kB\n"
        "MemAvailable:   %10u kB\n",
        1 << 30, mib * 1024, mib * 1024);
}

static void set_up(Bench *b)
{
    static const char *const folders[] = { "proc", "proc/pressure", "qmp" };
    static const FakeScript hostile[] = {
        FAKE_STUCK,   FAKE_DEAF,        FAKE_FLOOD,     FAKE_CLOSES,   FAKE_LIES,
        FAKE_GARBAGE, FAKE_NO_GREETING, FAKE_OVERSIZED, FAKE_WRONG_ID, FAKE_DEEP,
    };
    g_autofree char *qmp = NULL;

    b->folder = g_dir_make_tmp("steer-scale-XXXXXX", NULL);
    qmp = g_build_filename(b->folder, "qmp", NULL);
    for (gsize i = 0; i < G_N_ELEMENTS(folders); i++) {
        g_autofree char *path = g_build_filename(b->folder, folders[i], NULL);

        g_assert_cmpint(g_mkdir(path, 0700), ==, 0);
    }
    put(b, "proc/zoneinfo", "Node 0, zone Normal\n        high 1000\n");
    put(b, "proc/pressure/memory", "some total=0\nfull total=0\n");
    available(b, 100000);
    put(b, "steer.conf",
        "[daemon]\nqmp-folder=%s/qmp\ncontrol-socket="
        "%s/control\nlock-file=%s/lock\nproc-folder=%s/proc\npsi=totals\n"
        "metrics-file=%s/metrics\n[policy]\nfloor-mib=1000\nhold-ms=500\n"
        "hold-max-ms=500\npsi-veto-ms=0\njitter-ms=0\n",
        b->folder, b->folder, b->folder, b->folder, b->folder);
    b->host = fake_host_new(qmp);
    for (unsigned int i = 0; i < b->guests; i++) {
        g_autofree char *name = g_strdup_printf("vm%u", i);

        fake_host_add(b->host, name,
                      i < b->guests - b->hostile ? FAKE_GOOD
                                                 : hostile[i % G_N_ELEMENTS(hostile)]);
    }
}

static void start(Bench *b, const char *binary)
{
    g_autofree char *config = g_build_filename(b->folder, "steer.conf", NULL);

    b->daemon = fork();
    if (b->daemon == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!freopen("/dev/null", "w", stderr)) {
            _exit(127);
        }
        execl(binary, binary, "run", "--config", config, NULL);
        _exit(127);
    }
}

/* Of all threads; the clock ticks of /proc/PID/stat miss what is short. */
static double cpu_s(Bench *b)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/task", b->daemon);
    g_autoptr(GDir) tasks = g_dir_open(path, 0, NULL);
    const char *task;
    double ns = 0;

    g_assert_nonnull(tasks);
    while ((task = g_dir_read_name(tasks)) != NULL) {
        g_autofree char *file = g_strdup_printf("%s/%s/schedstat", path, task);
        g_autofree char *text = NULL;

        g_assert_true(g_file_get_contents(file, &text, NULL, NULL));
        ns += g_ascii_strtoull(text, NULL, 10);
    }
    return ns / 1e9;
}

static double rss_mib(Bench *b)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/statm", b->daemon);
    g_autofree char *text = NULL;
    unsigned long pages;

    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    g_assert_cmpint(sscanf(text, "%*u %lu", &pages), ==, 1);
    return pages * (sysconf(_SC_PAGESIZE) / 1048576.0);
}

/* When the last of the well-behaved was given a delay in the range; 0: no. */
static int64_t all_in(Bench *b, uint32_t min_ms, uint32_t max_ms, int64_t *first_us)
{
    int64_t last_us = 0;

    *first_us = INT64_MAX;
    for (unsigned int i = 0; i < b->guests - b->hostile; i++) {
        FakeGuest g = fake_host_look_at(b->host, i);

        if (g.requested_ms < min_ms || g.requested_ms > max_ms) {
            return 0;
        }
        last_us = MAX(last_us, g.set_us);
        *first_us = MIN(*first_us, g.set_us);
    }
    return last_us;
}

static int64_t wait_all(Bench *b, uint32_t min_ms, uint32_t max_ms, int64_t *first_us)
{
    int64_t end_us = g_get_monotonic_time() + 60 * G_USEC_PER_SEC;
    int64_t last_us;

    while (!(last_us = all_in(b, min_ms, max_ms, first_us))) {
        if (g_get_monotonic_time() > end_us) {
            fprintf(stderr, "bench-scale: not all VMs in 60 s\n");
            exit(1);
        }
        g_usleep(20000);
    }
    return last_us;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* From TIGHT, whose ticks are short, as it is when memory runs out. */
static void cross(Bench *b, int rounds)
{
    g_autofree double *total_ms = g_new0(double, rounds);
    g_autofree double *sending_ms = g_new0(double, rounds);

    for (int i = 0; i < rounds; i++) {
        int64_t crossed_us, last_us, first_us;

        available(b, 1900);
        wait_all(b, 500, 500, &first_us);
        /* The token bucket, 2000 a second, is full again after 0.5 s. */
        g_usleep(700000 + g_random_int_range(0, 50000));
        crossed_us = g_get_monotonic_time();
        available(b, 900);
        last_us = wait_all(b, 50, 50, &first_us);
        total_ms[i] = (last_us - crossed_us) / 1000.0;
        sending_ms[i] = (last_us - first_us) / 1000.0;
    }
    qsort(total_ms, rounds, sizeof(double), compare);
    qsort(sending_ms, rounds, sizeof(double), compare);
    printf("rounds,%d\ncrossed_to_last_ms_p50,%.1f\n"
           "crossed_to_last_ms_p99,%.1f\ncrossed_to_last_ms_max,%.1f\n"
           "first_to_last_ms_p50,%.1f\nfirst_to_last_ms_max,%.1f\n",
           rounds, total_ms[rounds / 2], total_ms[rounds * 99 / 100],
           total_ms[rounds - 1], sending_ms[rounds / 2], sending_ms[rounds - 1]);
}

static double share(Bench *b, int seconds)
{
    double before_s = cpu_s(b);
    int64_t start_us = g_get_monotonic_time();

    g_usleep((guint64)seconds * G_USEC_PER_SEC);
    return 100 * (cpu_s(b) - before_s) * G_USEC_PER_SEC /
           (g_get_monotonic_time() - start_us);
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

int main(int argc, char **argv)
{
    struct rlimit files;
    Bench b = { 0 };
    int64_t first_us;
    int rounds, settle_s, idle_s, status;

    if (argc != 7) {
        fprintf(stderr, "usage: bench-scale BALLOON-STEER GUESTS HOSTILE "
                        "ROUNDS SETTLE-S IDLE-S\n");
        return 2;
    }
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    b.guests = atoi(argv[2]);
    b.hostile = atoi(argv[3]);
    rounds = atoi(argv[4]);
    settle_s = atoi(argv[5]);
    idle_s = atoi(argv[6]);
    set_up(&b);
    start(&b, argv[1]);
    wait_all(&b, 10000, 60000, &first_us);
    printf("guests,%u\nhostile,%u\n", b.guests, b.hostile);
    g_usleep((gulong)settle_s * G_USEC_PER_SEC);
    printf("calm_cpu_percent,%.3f\n", share(&b, idle_s));
    fflush(stdout);
    cross(&b, rounds);
    fflush(stdout);
    g_usleep(2 * G_USEC_PER_SEC);
    printf("urgent_cpu_percent,%.2f\n", share(&b, MAX(idle_s / 2, 1)));
    printf("rss_mib,%.1f\n", rss_mib(&b));
    kill(b.daemon, SIGTERM);
    waitpid(b.daemon, &status, 0);
    fake_host_free(b.host);
    remove_tree(b.folder);
    g_free(b.folder);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
