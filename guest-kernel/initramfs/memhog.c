// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * memhog MIB [MIB...]: take memory, hold it, give it back on a signal.
 *
 * Maps and touches MIB mebibytes for each argument, then says "holding N".
 * SIGUSR1 unmaps the last of them that is still held ("holding N" again),
 * SIGTERM ends it, which frees everything. With huge pages where the kernel
 * gives them, and by a thread for each CPU, as a large process would.
 */
#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB (1024UL * 1024)
#define MAX_MIB (1024UL * 1024)

static unsigned long parse(const char *text)
{
    char *end;
    unsigned long value;

    errno = 0;
    value = strtoul(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end || errno || !value || value > MAX_MIB) {
        fprintf(stderr, "memhog: '%s' is no number of MiB from 1 to %lu\n", text, MAX_MIB);
        exit(2);
    }
    return value;
}

struct part {
    char *start, *end;
};

static void *touch(void *opaque)
{
    struct part *part = opaque;
    size_t page = sysconf(_SC_PAGESIZE);

    for (char *at = part->start; at < part->end; at += page) {
        *at = 1;
    }
    return NULL;
}

static char *take(unsigned long mib)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    char *start = mmap(NULL, mib * MIB, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (start == MAP_FAILED) {
        fprintf(stderr, "memhog: %lu MiB: %s\n", mib, strerror(errno));
        exit(1);
    }
    madvise(start, mib * MIB, MADV_HUGEPAGE);

    pthread_t threads[cpus];
    struct part parts[cpus];

    for (long i = 0; i < cpus; i++) {
        parts[i] = (struct part){ start + mib * i / cpus * MIB, start + mib * (i + 1) / cpus * MIB };
        if (pthread_create(&threads[i], NULL, touch, &parts[i])) {
            fprintf(stderr, "memhog: no thread\n");
            exit(1);
        }
    }
    for (long i = 0; i < cpus; i++) {
        pthread_join(threads[i], NULL);
    }
    return start;
}

int main(int argc, char **argv)
{
    int count = argc - 1, sig;
    unsigned long held = 0;
    unsigned long *mib;
    char **start;
    sigset_t set;

    if (count < 1) {
        fprintf(stderr, "usage: memhog MIB [MIB...]\n");
        return 2;
    }
    mib = calloc(count, sizeof(*mib));
    start = calloc(count, sizeof(*start));
    if (!mib || !start) {
        return 1;
    }
    for (int i = 0; i < count; i++) {
        mib[i] = parse(argv[i + 1]);
    }

    /* Blocked from here on: a signal that comes early waits for sigwait. */
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);

    for (int i = 0; i < count; i++) {
        start[i] = take(mib[i]);
        held += mib[i];
    }
    printf("holding %lu\n", held);
    fflush(stdout);

    while (sigwait(&set, &sig) == 0 && sig == SIGUSR1) {
        if (count) {
            count--;
            munmap(start[count], mib[count] * MIB);
            held -= mib[count];
        }
        printf("holding %lu\n", held);
        fflush(stdout);
    }
    return 0;
}
