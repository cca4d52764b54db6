// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * discard MIB: what the host's kernel needs to take memory back
 *
 * Maps and touches MIB mebibytes, with huge pages where the kernel gives them
 * (as QEMU asks for), and says "holding N". On SIGUSR1 discards all of it in
 * pieces of 2 MiB, as QEMU does for a report of huge pages, and says "discarded
 * in N us". It holds what it has until it is killed, the other way to give
 * memory back. No guest can be faster than that.
 */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MIB (1024UL * 1024)
#define PIECE (2 * MIB)

static long long now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

static char *take(size_t bytes)
{
    size_t page = sysconf(_SC_PAGESIZE);
    char *start = mmap(NULL, bytes + PIECE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (start == MAP_FAILED) {
        fprintf(stderr, "discard: %zu MiB: %s\n", bytes / MIB, strerror(errno));
        exit(1);
    }
    start += -(uintptr_t)start % PIECE;
    madvise(start, bytes, MADV_HUGEPAGE);
    for (size_t at = 0; at < bytes; at += page) {
        start[at] = 1;
    }
    return start;
}

int main(int argc, char **argv)
{
    char *end, *start;
    unsigned long mib = argc == 2 ? strtoul(argv[1], &end, 10) : 0;
    long long from;
    sigset_t set;
    int sig;

    if (!mib || *end || mib > MIB) {
        fprintf(stderr, "usage: discard MIB\n");
        return 2;
    }
    /* Blocked from here on: a signal that comes early waits for sigwait. */
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);

    start = take(mib * MIB);
    printf("holding %lu\n", mib);
    fflush(stdout);
    while (sigwait(&set, &sig) == 0) {
        from = now_us();
        for (size_t at = 0; at < mib * MIB; at += PIECE) {
            if (madvise(start + at, PIECE, MADV_DONTNEED)) {
                fprintf(stderr, "discard: %s\n", strerror(errno));
                return 1;
            }
        }
        printf("discarded in %lld us\n", now_us() - from);
        fflush(stdout);
    }
    return 0;
}
