// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * churn MIB PERIOD-MS: take and free memory again and again.
 *
 * Every PERIOD-MS milliseconds, or as fast as it goes if that is longer, maps,
 * touches and unmaps MIB mebibytes. On SIGTERM says "cycles N, mean M us, p99
 * P us, whole W ms" and ends: mean and p99 are of map and touch, the whole is
 * from the start to the end of the last cycle.
 */
#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MIB (1024UL * 1024)
#define MAX_CYCLES 1000000

static volatile sig_atomic_t ended;

static void end(int sig)
{
    (void)sig;
    ended = 1;
}

static unsigned long parse(const char *text, const char *what, unsigned long max)
{
    char *stop;
    unsigned long value;

    errno = 0;
    value = strtoul(text, &stop, 10);
    if (!isdigit((unsigned char)text[0]) || *stop || errno || value > max) {
        fprintf(stderr, "churn: '%s' is no number of %s from 0 to %lu\n", text, what, max);
        exit(2);
    }
    return value;
}

static long long now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void take_and_free(unsigned long bytes, unsigned int *us)
{
    size_t page = sysconf(_SC_PAGESIZE);
    long long start = now_ns();
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED) {
        fprintf(stderr, "churn: %lu MiB: %s\n", bytes / MIB, strerror(errno));
        exit(1);
    }
    madvise(p, bytes, MADV_HUGEPAGE);
    for (size_t at = 0; at < bytes; at += page) {
        p[at] = 1;
    }
    *us = (now_ns() - start) / 1000;
    munmap(p, bytes);
}

static int compare(const void *a, const void *b)
{
    unsigned int x = *(const unsigned int *)a, y = *(const unsigned int *)b;

    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    struct sigaction action = { .sa_handler = end };
    unsigned int *us = calloc(MAX_CYCLES, sizeof(*us));
    unsigned long mib, period_ms, count = 0;
    unsigned long long sum = 0;
    long long start, next, last;

    if (argc != 3 || !us) {
        fprintf(stderr, "usage: churn MIB PERIOD-MS\n");
        return 2;
    }
    mib = parse(argv[1], "MiB", MAX_CYCLES);
    period_ms = parse(argv[2], "milliseconds", MAX_CYCLES);
    sigaction(SIGTERM, &action, NULL);

    start = next = last = now_ns();
    while (!ended && count < MAX_CYCLES) {
        long long left;

        take_and_free(mib * MIB, &us[count]);
        last = now_ns();
        sum += us[count++];
        next += period_ms * 1000000LL;
        left = next - now_ns();
        if (left > 0) {
            struct timespec t = { left / 1000000000, left % 1000000000 };

            nanosleep(&t, NULL);
        } else {
            next -= left; /* late: do not make up for it */
        }
    }
    qsort(us, count, sizeof(*us), compare);
    printf("cycles %lu, mean %llu us, p99 %u us, whole %lld ms\n", count,
           count ? sum / count : 0, count ? us[(count - 1) * 99 / 100] : 0,
           (last - start) / 1000000);
    return 0;
}
