/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What longpin and fragthp share: pins of huge pages, times, the kernel's counters.
 *
 * A program that includes it says its name first, in PROGRAM.
 */
#include <ctype.h>
#include <errno.h>
#include <linux/io_uring.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define MIB (1024UL * 1024)
#define PIECE (2 * MIB)
/* What IORING_REGISTER_BUFFERS2 takes at most, and as much as 32 GiB. */
#define MAX_PIECES 16384UL
#define MAX_COUNTERS 512

struct counter {
    char name[48];
    long long value;
};

static inline void die(const char *what)
{
    fprintf(stderr, PROGRAM ": %s: %s\n", what, strerror(errno));
    exit(1);
}

static inline FILE *open_file(const char *path, const char *mode)
{
    FILE *file = fopen(path, mode);

    if (!file) {
        die(path);
    }
    return file;
}

/* Address space of LENGTH bytes, aligned to a piece, not touched. */
static inline char *reserve(unsigned long length, int advice)
{
    char *start = mmap(NULL, length + PIECE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (start == MAP_FAILED) {
        die("mmap");
    }
    start += PIECE - (unsigned long)start % PIECE;
    if (madvise(start, length, advice)) {
        die("madvise");
    }
    return start;
}

static inline unsigned long parse(const char *text, const char *what, unsigned long max)
{
    char *stop;
    unsigned long value;

    errno = 0;
    value = strtoul(text, &stop, 10);
    if (!isdigit((unsigned char)text[0]) || *stop || errno || value > max) {
        fprintf(stderr, PROGRAM ": '%s' is no %s from 0 to %lu\n", text, what, max);
        exit(2);
    }
    return value;
}

static inline long long now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* A ring that has COUNT slots for buffers, all of them empty. */
static inline int open_ring(unsigned long count)
{
    struct io_uring_params params = { 0 };
    struct io_uring_rsrc_register sparse = {
        .nr = count,
        .flags = IORING_RSRC_REGISTER_SPARSE,
    };
    int ring = syscall(SYS_io_uring_setup, 1, &params);

    if (ring < 0) {
        die("io_uring_setup");
    }
    if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS2, &sparse,
                sizeof(sparse))) {
        die("IORING_REGISTER_BUFFERS2");
    }
    return ring;
}

/*
 * A long-term pin of LENGTH bytes that are perhaps not there yet. Ends the program if
 * it fails.
 */
static inline void pin(int ring, char *start, unsigned long length, unsigned long slot)
{
    struct iovec buffer = { .iov_base = start, .iov_len = length };
    struct io_uring_rsrc_update2 update = {
        .offset = slot,
        .data = (unsigned long)&buffer,
        .nr = 1,
    };

    if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS_UPDATE, &update,
                sizeof(update)) != 1) {
        die("IORING_REGISTER_BUFFERS_UPDATE");
    }
}

/* Of this process, in KiB. */
static inline long huge_kib(void)
{
    char line[256];
    long kib = -1;
    FILE *file = open_file("/proc/self/smaps_rollup", "r");

    while (fgets(line, sizeof(line), file)) {
        if (sscanf(line, "AnonHugePages: %ld", &kib) == 1) {
            break;
        }
    }
    fclose(file);
    return kib;
}

/* All of /proc/vmstat, MAX_COUNTERS at most; how many. */
static inline int read_counters(struct counter *counters)
{
    int count = 0;
    FILE *file = open_file("/proc/vmstat", "r");

    while (count < MAX_COUNTERS &&
           fscanf(file, "%47s %lld", counters[count].name, &counters[count].value) == 2) {
        count++;
    }
    fclose(file);
    return count;
}

/* "vmstat NAME BY", a line for each that has to do with compaction and reclaim. */
static inline void print_counters(const struct counter *before, const struct counter *after,
                                  int count)
{
    static const char *const wanted[] = {
        "compact_", "allocstall_", "pgscan_direct", "pgsteal_direct", "pgscan_kswapd",
        "pgmigrate_", "thp_fault_",
    };

    for (int i = 0; i < count; i++) {
        for (size_t w = 0; w < sizeof(wanted) / sizeof(wanted[0]); w++) {
            if (!strncmp(after[i].name, wanted[w], strlen(wanted[w]))) {
                printf("vmstat %s %lld\n", after[i].name, after[i].value - before[i].value);
            }
        }
    }
}

static inline int compare(const void *a, const void *b)
{
    unsigned int x = *(const unsigned int *)a, y = *(const unsigned int *)b;

    return (x > y) - (x < y);
}

/* "total-us T mean-us T p50-us T p99-us T"; sorts what it is given. */
static inline void print_times(unsigned int *us, unsigned long count)
{
    unsigned long long sum = 0;

    for (unsigned long i = 0; i < count; i++) {
        sum += us[i];
    }
    qsort(us, count, sizeof(*us), compare);
    printf("total-us %llu mean-us %llu p50-us %u p99-us %u", sum, count ? sum / count : 0,
           count ? us[(count - 1) / 2] : 0, count ? us[(count - 1) * 99 / 100] : 0);
}
