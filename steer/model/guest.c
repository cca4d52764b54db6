/*
 * A guest: its free memory, and the passes that report it
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "model.h"

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* mm/page_reporting.c: blocks of 4 MiB, 32 a report */
#define BLOCK_BYTES (4 * MODEL_MIB)
#define REPORT_BLOCKS 32
/* A pass that follows a pass at delay 0 still takes its time. */
#define PASS_MIN_NS (1 * MODEL_MS)
/* From the allocator's free path, a jiffy at 250 Hz */
#define JIFFY_NS (4 * MODEL_MS)

static void guest_request_pass(ModelGuest *g, int64_t now_ns, int64_t least_ns)
{
    g->requested_ns = now_ns;
    g->pass_ns = now_ns + MAX(g->delay_ms * MODEL_MS, least_ns);
}

/* A pending pass moves at once, counted from when it was asked for. */
void guest_set_delay(ModelGuest *g, uint32_t delay_ms, int64_t now_ns)
{
    if (delay_ms != g->delay_ms && g->pass_ns != MODEL_NEVER) {
        g->pass_ns = MAX(g->requested_ns + delay_ms * MODEL_MS, now_ns);
    }
    g->delay_ms = delay_ms;
}

/*
 * Allocation takes what was freed last, which the host still backs: reported
 * blocks are at the tail of the free lists. The rest has to be faulted in.
 */
static void guest_allocate(ModelGuest *g, uint64_t bytes)
{
    uint64_t backed = MIN(bytes, g->freed_bytes);
    uint64_t rest = g->returned_bytes + g->untouched_bytes + g->fresh_bytes;

    g->freed_bytes -= backed;
    g->used_bytes += backed;
    g->wanted_bytes += MIN(bytes - backed, rest - g->wanted_bytes);
}

static void guest_free(ModelGuest *g, uint64_t bytes, int64_t now_ns)
{
    uint64_t unserved = MIN(bytes, g->wanted_bytes);

    g->wanted_bytes -= unserved;
    bytes = MIN(bytes - unserved, g->used_bytes);
    g->used_bytes -= bytes;
    g->freed_bytes += bytes;
    if (bytes && g->pass_ns == MODEL_NEVER) {
        guest_request_pass(g, now_ns, JIFFY_NS);
    }
}

void guest_use(ModelGuest *g, uint64_t use_bytes, int64_t now_ns)
{
    uint64_t now_used = g->used_bytes + g->wanted_bytes;

    if (use_bytes > now_used) {
        guest_allocate(g, use_bytes - now_used);
    } else {
        guest_free(g, now_used - use_bytes, now_ns);
    }
}

uint64_t guest_fault(ModelGuest *g, uint64_t bytes)
{
    uint64_t again = MIN(bytes, g->returned_bytes);
    uint64_t untouched = MIN(bytes - again, g->untouched_bytes);

    g->wanted_bytes -= bytes;
    g->used_bytes += bytes;
    g->returned_bytes -= again;
    g->untouched_bytes -= untouched;
    g->fresh_bytes -= bytes - again - untouched;
    return again;
}

uint64_t guest_pass(ModelGuest *g, int64_t now_ns)
{
    uint64_t blocks =
        (g->freed_bytes + g->returned_bytes + g->untouched_bytes + g->fresh_bytes) /
        BLOCK_BYTES;
    /* DIV_ROUND_UP(nr_free, 32 * 16), and one more */
    uint64_t reports = (blocks + REPORT_BLOCKS * 16 - 1) / (REPORT_BLOCKS * 16) + 1;
    uint64_t budget = reports * REPORT_BLOCKS * BLOCK_BYTES;
    uint64_t backed = MIN(budget, g->freed_bytes);
    uint64_t fresh = MIN(budget - backed, g->fresh_bytes);

    g->freed_bytes -= backed;
    g->returned_bytes += backed;
    g->fresh_bytes -= fresh;
    g->untouched_bytes += fresh;
    g->discarded_bytes += backed + fresh;
    g->pass_ns = MODEL_NEVER;
    if (g->freed_bytes || g->fresh_bytes) {
        guest_request_pass(g, now_ns, PASS_MIN_NS);
    }
    return backed;
}
