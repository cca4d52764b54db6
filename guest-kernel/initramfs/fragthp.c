// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * fragthp LEAVE-MIB PERCENT MIB touch|pin SEED: huge pages out of fragmented memory.
 *
 * Takes single pages until LEAVE-MIB mebibytes are free, frees PERCENT of them
 * here and there, then takes what huge pages are still to be had without
 * compaction. All that it holds can be migrated, so that compaction succeeds
 * if it is tried. Then it asks for MIB mebibytes of huge pages, touching them
 * (movable) or pinning them (unmovable), and measures that. Says
 *
 *   frag filled-mib N freed-mib N sponge N free-order9 N
 *   thp pieces N huge N total-us T mean-us T p50-us T p99-us T
 *   vmstat NAME N            by how much the counter went up during "thp"
 *
 * and ends. The same SEED frees the same pages of the mapping. "free-order9"
 * is what was free in blocks of that order or larger when "thp" began.
 */
#define PROGRAM "fragthp"
#include "pins.h"

#define PAGE 4096UL
#define MAX_MIB (64UL * 1024)
#define DEFRAG "/sys/kernel/mm/transparent_hugepage/defrag"

static unsigned long free_mib(void)
{
    char line[256];
    unsigned long kib = 0;
    FILE *file = open_file("/proc/meminfo", "r");

    while (fgets(line, sizeof(line), file) && sscanf(line, "MemFree: %lu", &kib) != 1) {
    }
    fclose(file);
    return kib / 1024;
}

/* Blocks of order 9 and 10 that are free, as many as order 9 would be. */
static unsigned long free_huge(void)
{
    char line[512];
    unsigned long sum = 0;
    FILE *file = open_file("/proc/buddyinfo", "r");

    while (fgets(line, sizeof(line), file)) {
        char *end = line + strcspn(line, "\n");
        unsigned long order10, order9;

        /* The last two columns, from the right: how many there are before varies. */
        while (end > line && end[-1] == ' ') {
            *--end = '\0';
        }
        end = strrchr(line, ' ');
        order10 = strtoul(end, NULL, 10);
        while (end > line && end[-1] == ' ') {
            end--;
        }
        *end = '\0';
        order9 = strtoul(strrchr(line, ' '), NULL, 10);
        sum += order9 + 2 * order10;
    }
    fclose(file);
    return sum;
}

static void write_to(const char *path, const char *text)
{
    FILE *file = open_file(path, "w");

    if (fputs(text, file) < 0 || fclose(file)) {
        die(path);
    }
}

/* Single pages until that little is free; how many bytes. */
static unsigned long fill(char *start, unsigned long length, unsigned long leave)
{
    unsigned long done = 0;

    while (done < length && free_mib() > leave) {
        for (unsigned long at = 0; at < MIB; at += PAGE) {
            start[done + at] = 1;
        }
        done += MIB;
    }
    return done;
}

static unsigned long free_some(char *start, unsigned long length, unsigned long percent,
                               unsigned long seed)
{
    unsigned long freed = 0;
    unsigned int state = seed;

    for (unsigned long at = 0; at < length; at += PAGE) {
        /* Numerical Recipes' generator; its high bits are the good ones. */
        state = state * 1664525U + 1013904223U;
        if ((state >> 8) % 100 < percent) {
            if (madvise(start + at, PAGE, MADV_DONTNEED)) {
                die("MADV_DONTNEED");
            }
            freed += PAGE;
        }
    }
    return freed;
}

/* Huge pages for as long as they need no compaction; how many. */
static unsigned long sponge(void)
{
    unsigned long count = 0, length = free_mib() * MIB + PIECE;
    char *start = reserve(length, MADV_HUGEPAGE);
    long before = huge_kib();

    write_to(DEFRAG, "never");
    while ((count + 1) * PIECE <= length) {
        start[count * PIECE] = 1;
        if (huge_kib() - before != (long)((count + 1) * (PIECE / 1024))) {
            break;
        }
        count++;
    }
    write_to(DEFRAG, "madvise");
    return count;
}

static void ask(unsigned long count, int pinned)
{
    static struct counter before[MAX_COUNTERS], after[MAX_COUNTERS];
    char *start = reserve(count * PIECE, MADV_HUGEPAGE);
    unsigned int *us = calloc(count, sizeof(*us));
    int counters, ring = pinned ? open_ring(count) : -1;
    long huge = huge_kib();

    if (!us) {
        die("calloc");
    }
    counters = read_counters(before);
    for (unsigned long i = 0; i < count; i++) {
        long long from = now_ns();

        if (pinned) {
            pin(ring, start + i * PIECE, PIECE, i);
        } else {
            start[i * PIECE] = 1;
        }
        us[i] = (now_ns() - from) / 1000;
    }
    read_counters(after);
    printf("thp pieces %lu huge %ld ", count, (huge_kib() - huge) / (long)(PIECE / 1024));
    print_times(us, count);
    printf("\n");
    print_counters(before, after, counters);
}

int main(int argc, char **argv)
{
    unsigned long leave, percent, count, length, filled, freed, huge;
    int pinned;
    char *start;

    if (argc != 6 || (strcmp(argv[4], "touch") && strcmp(argv[4], "pin"))) {
        fprintf(stderr, "usage: fragthp LEAVE-MIB PERCENT MIB touch|pin SEED\n");
        return 2;
    }
    leave = parse(argv[1], "number of MiB", MAX_MIB);
    percent = parse(argv[2], "percentage", 100);
    count = parse(argv[3], "number of MiB", MAX_PIECES) * MIB / PIECE;
    pinned = !strcmp(argv[4], "pin");
    length = free_mib() * MIB;
    start = reserve(length, MADV_NOHUGEPAGE);
    filled = fill(start, length, leave);
    freed = free_some(start, filled, percent, parse(argv[5], "seed", UINT32_MAX));
    huge = sponge();
    printf("frag filled-mib %lu freed-mib %lu sponge %lu free-order9 %lu\n", filled / MIB,
           freed / MIB, huge, free_huge());
    fflush(stdout);
    if (count) {
        ask(count, pinned);
    }
    return 0;
}
