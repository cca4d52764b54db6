// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * smalljobs MS: short programs one after the other, as a build has them
 *
 * Each job is a new process that takes a few MiB in pieces of 16 bytes to
 * 64 KiB (a compiler's), frees a third of them again, writes an object of some
 * KiB to /tmp and ends. Two run at a time. After MS milliseconds says "jobs N,
 * took T us". The sizes are the same in each run.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define AT_A_TIME 2
#define MAX_PIECES 4096
/* Objects are kept until there are so many, as the files of a build folder. */
#define FILES 64

static long long now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

static uint32_t next(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 8;
}

static void write_object(uint32_t number, uint32_t *seed)
{
    char path[64], block[1024];
    FILE *file;

    snprintf(path, sizeof(path), "/tmp/job-%u.o", number % FILES);
    unlink(path);
    file = fopen(path, "w");
    memset(block, 1, sizeof(block));
    for (uint32_t kib = 8 + next(seed) % 120; file && kib; kib--) {
        fwrite(block, 1, sizeof(block), file);
    }
    if (!file || fclose(file)) {
        _exit(1);
    }
}

static void job(uint32_t number)
{
    static char *piece[MAX_PIECES];
    uint32_t seed = number % FILES + 1; /* the same programs again and again */
    uint32_t pieces = 1024 + next(&seed) % (MAX_PIECES - 1024);

    for (uint32_t i = 0; i < pieces; i++) {
        size_t bytes = (size_t)16 << next(&seed) % 13;

        piece[i] = malloc(bytes);
        if (!piece[i]) {
            _exit(1);
        }
        memset(piece[i], 1, bytes);
        if (i && next(&seed) % 3 == 0) {
            uint32_t old = next(&seed) % i;

            free(piece[old]);
            piece[old] = NULL;
        }
    }
    write_object(number, &seed);
    _exit(0);
}

int main(int argc, char **argv)
{
    long long start = now_us(), end;
    uint32_t begun = 0, ended = 0;
    long ms = argc == 2 ? atol(argv[1]) : 0;

    if (ms < 1) {
        fprintf(stderr, "usage: smalljobs MS\n");
        return 2;
    }
    end = start + ms * 1000;
    while (now_us() < end || ended < begun) {
        int status;

        while (now_us() < end && begun - ended < AT_A_TIME) {
            pid_t child = fork();

            if (child < 0) {
                fprintf(stderr, "smalljobs: %s\n", strerror(errno));
                return 1;
            }
            if (child == 0) {
                job(begun);
            }
            begun++;
        }
        if (wait(&status) < 0 || status) {
            fprintf(stderr, "smalljobs: one has failed\n");
            return 1;
        }
        ended++;
    }
    printf("jobs %u, took %lld us\n", ended, now_us() - start);
    return 0;
}
