// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * longpin NODE FILL-MIB MIB: long-term pins that want one node, and huge pages.
 *
 * Registers memory that nobody has touched yet as io_uring buffers, a huge
 * page each, as a virtual machine's memory is pinned for an assigned device.
 * Each is asked of NODE and may come from another.
 *
 * First it fills NODE: up to FILL-MIB mebibytes, until four in a row have come
 * from elsewhere. What is left free there is then CMA, where no such pin may
 * be, and what the watermark keeps, or a little more: so that not a page more
 * or less decides, the watermark is raised by a quarter. Then it takes MIB
 * mebibytes more and measures that. Says
 *
 *   fill pieces N huge N total-us T mean-us T p50-us T p99-us T node0 N node1 N ...
 *   pins pieces N huge N ...
 *   vmstat NAME N            by how much the counter went up during "pins"
 *   holding MIB
 *
 * and keeps it all pinned until SIGTERM. Ends with 1 if a pin fails.
 */
#define PROGRAM "longpin"
#include "pins.h"

#define MAX_NODES 8UL
/* Of either of the two: MAX_PIECES slots hold them. */
#define MAX_MIB 16384UL
/* A single one may come from elsewhere by chance. */
#define ELSEWHERE 4

/* As linux/mempolicy.h has it, which not every system has. */
#define POLICY_PREFERRED 1
#define POLICY_OF_NODE 1
#define POLICY_OF_ADDRESS 2

struct phase {
    const char *name;
    unsigned long count;
    unsigned long from[MAX_NODES];
    unsigned int *us;
    long huge_kib;
};

/* Address space for COUNT pieces that want NODE. */
static char *reserve_on(unsigned long count, unsigned long node)
{
    unsigned long nodes = 1UL << node;
    char *start = reserve(count * PIECE, MADV_HUGEPAGE);

    /* The kernel takes one bit less than it is told of. */
    if (syscall(SYS_mbind, start, count * PIECE, POLICY_PREFERRED, &nodes,
                MAX_NODES + 1, 0)) {
        die("mbind");
    }
    return start;
}

static unsigned long node_of(void *piece)
{
    int node = -1;

    /* The node of what is there, by the two flags: not a policy. */
    if (syscall(SYS_get_mempolicy, &node, NULL, 0UL, piece,
                POLICY_OF_NODE | POLICY_OF_ADDRESS)) {
        die("get_mempolicy");
    }
    if (node < 0 || (unsigned long)node >= MAX_NODES) {
        fprintf(stderr, "longpin: get_mempolicy says node %d\n", node);
        exit(1);
    }
    return node;
}

static void print_phase(struct phase *phase)
{
    printf("%s pieces %lu huge %ld ", phase->name, phase->count,
           phase->huge_kib / (long)(PIECE / 1024));
    print_times(phase->us, phase->count);
    for (unsigned long node = 0; node < MAX_NODES; node++) {
        if (node < 2 || phase->from[node]) {
            printf(" node%lu %lu", node, phase->from[node]);
        }
    }
    printf("\n");
    fflush(stdout);
}

/*
 * Pins up to COUNT pieces from START on into the slots from SLOT on; with
 * node < MAX_NODES until that node has no more.
 */
static void run(struct phase *phase, int ring, char *start, unsigned long slot,
                unsigned long count, unsigned long node)
{
    unsigned int elsewhere = 0;
    long before = huge_kib();

    phase->us = calloc(count + 1, sizeof(*phase->us));
    if (!phase->us) {
        die("calloc");
    }
    while (phase->count < count && elsewhere < ELSEWHERE) {
        char *piece = start + phase->count * PIECE;
        long long from = now_ns();
        unsigned long got;

        pin(ring, piece, PIECE, slot + phase->count);
        phase->us[phase->count++] = (now_ns() - from) / 1000;
        got = node_of(piece);
        phase->from[got]++;
        elsewhere = node < MAX_NODES && got != node ? elsewhere + 1 : 0;
    }
    phase->huge_kib = huge_kib() - before;
    print_phase(phase);
}

static void raise_watermark(void)
{
    unsigned long kib;
    FILE *file = open_file("/proc/sys/vm/min_free_kbytes", "r+");

    if (fscanf(file, "%lu", &kib) != 1) {
        die("/proc/sys/vm/min_free_kbytes");
    }
    rewind(file);
    if (fprintf(file, "%lu\n", kib + kib / 4) < 0 || fclose(file)) {
        die("/proc/sys/vm/min_free_kbytes");
    }
}

int main(int argc, char **argv)
{
    static struct counter before[MAX_COUNTERS], after[MAX_COUNTERS];
    struct phase fill = { .name = "fill" }, pins = { .name = "pins" };
    unsigned long node, fill_max, count;
    char *start;
    sigset_t set;
    int ring, sig, counters;

    if (argc != 4) {
        fprintf(stderr, "usage: longpin NODE FILL-MIB MIB\n");
        return 2;
    }
    node = parse(argv[1], "node", MAX_NODES - 1);
    fill_max = parse(argv[2], "number of MiB", MAX_MIB) * MIB / PIECE;
    count = parse(argv[3], "number of MiB", MAX_MIB) * MIB / PIECE;

    /* Blocked from here on: a signal that comes early waits for sigwait. */
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);

    ring = open_ring(fill_max + count);
    start = reserve_on(fill_max + count, node);
    run(&fill, ring, start, 0, fill_max, node);
    raise_watermark();

    start += fill_max * PIECE;
    counters = read_counters(before);
    run(&pins, ring, start, fill_max, count, MAX_NODES);
    if (read_counters(after) != counters) {
        fprintf(stderr, "longpin: /proc/vmstat has changed its shape\n");
        return 1;
    }
    print_counters(before, after, counters);
    printf("holding %lu\n", (fill.count + pins.count) * PIECE / MIB);
    fflush(stdout);
    sigwait(&set, &sig);
    return 0;
}
