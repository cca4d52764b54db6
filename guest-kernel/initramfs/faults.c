// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * faults anonymous|file 4k|thp processes|threads TASKS ms|times N: page faults, as many as it can
 *
 * Each task maps 32 MiB, writes to every page of it and unmaps it, again and
 * again: anonymous memory (as will-it-scale's page_fault1 does) or a private
 * mapping of a file in /tmp, copied by the write (as page_fault2 does). For N
 * milliseconds, or N times in each task. Says "faults F, took T us": of all
 * tasks, and of the one that took longest, without its start. A huge page that
 * is touched counts as the 4 KiB pages it has.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BYTES (32UL << 20)
#define HUGE_BYTES (2UL << 20)
#define PAGE 4096UL
#define MAX_TASKS 64

static int file_backed, huge, by_time;
static long long limit;

typedef struct {
    long faults;
    long long us;
} Task;

static long long now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

static void die(const char *what)
{
    fprintf(stderr, "faults: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int new_file(void)
{
    char path[] = "/tmp/faults-XXXXXX";
    char page[PAGE];
    int fd = mkstemp(path);

    memset(page, 1, sizeof(page));
    if (fd < 0 || unlink(path)) {
        die(path);
    }
    for (size_t at = 0; at < BYTES; at += PAGE) {
        if (write(fd, page, PAGE) != (ssize_t)PAGE) {
            die(path);
        }
    }
    return fd;
}

static long once(int fd)
{
    /* Room to begin at a huge page's bound. */
    size_t bytes = BYTES + (huge ? HUGE_BYTES : 0);
    char *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
    char *first = start;

    if (start == MAP_FAILED) {
        die("mmap");
    }
    if (huge) {
        first = (char *)(((unsigned long)start + HUGE_BYTES - 1) & -HUGE_BYTES);
    }
    madvise(start, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    for (size_t at = 0; at < BYTES; at += PAGE) {
        first[at] = 1;
    }
    munmap(start, bytes);
    return BYTES / PAGE;
}

static void *work(void *arg)
{
    Task *task = arg;
    int fd = file_backed ? new_file() : -1;
    long long start = now_us();

    for (long long times = 0; by_time ? task->us < limit * 1000 : times < limit; times++) {
        task->faults += once(fd);
        task->us = now_us() - start;
    }
    if (fd >= 0) {
        close(fd);
    }
    return NULL;
}

/* The index of a word among two, or the end. */
static int choice(const char *word, const char *no, const char *yes)
{
    if (strcmp(word, no) && strcmp(word, yes)) {
        fprintf(stderr, "faults: '%s' is neither %s nor %s\n", word, no, yes);
        exit(2);
    }
    return !strcmp(word, yes);
}

int main(int argc, char **argv)
{
    pthread_t threads[MAX_TASKS];
    long long sum = 0, longest = 0;
    Task *task;
    int tasks, as_threads, status;

    if (argc != 7) {
        fprintf(stderr, "usage: faults anonymous|file 4k|thp processes|threads TASKS ms|times N\n");
        return 2;
    }
    file_backed = choice(argv[1], "anonymous", "file");
    huge = choice(argv[2], "4k", "thp");
    as_threads = choice(argv[3], "processes", "threads");
    by_time = choice(argv[5], "times", "ms");
    tasks = atoi(argv[4]);
    limit = atoll(argv[6]);
    if (tasks < 1 || tasks > MAX_TASKS || limit < 1) {
        fprintf(stderr, "faults: 1 to %d tasks, N from 1\n", MAX_TASKS);
        return 2;
    }
    task = mmap(NULL, sizeof(*task) * MAX_TASKS, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (task == MAP_FAILED) {
        die("mmap");
    }

    for (int i = 0; i < tasks; i++) {
        if (as_threads) {
            errno = pthread_create(&threads[i], NULL, work, &task[i]);
            if (errno) {
                die("thread");
            }
            continue;
        }
        switch (fork()) {
        case -1:
            die("fork");
            break;
        case 0:
            work(&task[i]);
            _exit(0);
        }
    }
    for (int i = 0; i < tasks; i++) {
        if (as_threads) {
            pthread_join(threads[i], NULL);
        } else if (wait(&status) < 0 || status) {
            fprintf(stderr, "faults: a process has failed\n");
            return 1;
        }
    }
    for (int i = 0; i < tasks; i++) {
        sum += task[i].faults;
        longest = task[i].us > longest ? task[i].us : longest;
    }
    printf("faults %lld, took %lld us\n", sum, longest);
    return 0;
}
