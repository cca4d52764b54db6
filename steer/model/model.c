/*
 * The host, and the loop over events
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model-internal.h"

/* A guest touches memory this fast, if the host has it: huge pages, zeroed */
#define FAULT_BYTES_PER_S (1 * MODEL_GIB)
/* Clean cache given up, by one kswapd a node; swap on a plain SSD */
#define RECLAIM_BYTES_PER_S (2 * MODEL_GIB)
#define NODE_BYTES (128 * MODEL_GIB)
#define SWAP_BYTES_PER_S (200 * MODEL_MIB)
#define CACHE_BYTES_PER_S (100 * MODEL_MIB)
#define CACHE_MAX_PERCENT 10
#define CACHE_MIN_PERCENT 1
#define HOST_BASE_BYTES (2 * MODEL_GIB)
#define HOST_STEP_NS (20 * MODEL_MS)

/* The heap of guests, by the time of their next event */

static int64_t guest_next_ns(const ModelGuest *g)
{
    return MIN(g->pass_ns, g->work_ns);
}

static void heap_put(Model *m, size_t at, ModelGuest *g)
{
    m->heap[at] = g;
    g->heap_at = at;
}

void model_guest_moved(Model *m, ModelGuest *g)
{
    int64_t when_ns = guest_next_ns(g);
    size_t at = g->heap_at, child;

    while (at && when_ns < guest_next_ns(m->heap[(at - 1) / 2])) {
        heap_put(m, at, m->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    while ((child = 2 * at + 1) < m->count) {
        if (child + 1 < m->count &&
            guest_next_ns(m->heap[child + 1]) < guest_next_ns(m->heap[child])) {
            child++;
        }
        if (when_ns <= guest_next_ns(m->heap[child])) {
            break;
        }
        heap_put(m, at, m->heap[child]);
        at = child;
    }
    heap_put(m, at, g);
}

/* The host */

static void host_init(ModelHost *h, uint64_t guests_bytes, uint32_t percent)
{
    uint64_t min_kib;

    h->ram_bytes = guests_bytes / percent * 100 + HOST_BASE_BYTES;
    h->cache_max_bytes = h->ram_bytes / 100 * CACHE_MAX_PERCENT;
    h->cache_min_bytes = h->ram_bytes / 100 * CACHE_MIN_PERCENT;
    h->cache_bytes = h->cache_max_bytes / 2;
    h->free_bytes = h->ram_bytes - HOST_BASE_BYTES - h->cache_bytes;
    /* mm/page_alloc.c: init_per_zone_wmark_min(), watermark_scale_factor */
    min_kib = MIN(4 * sqrt(h->ram_bytes / 1024.0), 262144);
    h->min_bytes = min_kib * 1024;
    h->low_bytes = h->min_bytes + MAX(h->min_bytes / 4, h->ram_bytes / 1000);
    h->high_bytes = 2 * h->low_bytes - h->min_bytes;
    h->reclaim_bytes = MAX(1, (double)h->ram_bytes / NODE_BYTES) * RECLAIM_BYTES_PER_S *
                       HOST_STEP_NS / MODEL_S;
}

/* MemAvailable, by mm/show_mem.c */
uint64_t model_available_bytes(const ModelHost *h)
{
    uint64_t sure = h->free_bytes - MIN(h->free_bytes, h->high_bytes);

    return sure + h->cache_bytes - MIN(h->cache_bytes / 2, h->low_bytes);
}

static void host_grow_cache(ModelHost *h, int64_t now_ns)
{
    double elapsed_s = (double)(now_ns - h->cache_ns) / MODEL_S;
    uint64_t spare = h->free_bytes - MIN(h->free_bytes, 4 * h->high_bytes);
    uint64_t grown =
        MIN(elapsed_s * CACHE_BYTES_PER_S, h->cache_max_bytes - h->cache_bytes);

    grown = MIN(grown, spare);
    h->cache_bytes += grown;
    h->free_bytes -= grown;
    h->cache_ns = now_ns;
}

/* What is in swap comes back as nothing, in proportion. */
static void host_take_back(Model *m, uint64_t bytes)
{
    ModelHost *h = &m->host;
    uint64_t swapped = 0;

    if (h->swapped_bytes && m->backed_bytes) {
        swapped = MIN((double)bytes * h->swapped_bytes / m->backed_bytes,
                      MIN(bytes, h->swapped_bytes));
    }
    m->backed_bytes -= bytes;
    h->swapped_bytes -= swapped;
    h->free_bytes += bytes - swapped;
}

static uint64_t host_reclaim(ModelHost *h, uint64_t bytes)
{
    uint64_t spare = h->cache_bytes - MIN(h->cache_bytes, h->cache_min_bytes);

    bytes = MIN(bytes, spare);
    h->cache_bytes -= bytes;
    h->free_bytes += bytes;
    return bytes;
}

static uint64_t host_swap(Model *m, uint64_t bytes)
{
    bytes = MIN(bytes, m->backed_bytes - MIN(m->backed_bytes, m->host.swapped_bytes));
    m->host.swapped_bytes += bytes;
    m->host.free_bytes += bytes;
    m->result->swapped_bytes += bytes;
    return bytes;
}

/*
 * Memory for @demand, as far as there is some. Beyond the min watermark every
 * byte is reclaimed by whoever wants it, and that is stall.
 * @stalled: the share of the step that those who want memory wait
 */
static uint64_t host_grant(Model *m, uint64_t demand, double *stalled)
{
    const double step_s = (double)HOST_STEP_NS / MODEL_S;
    ModelHost *h = &m->host;
    uint64_t spare = h->free_bytes - MIN(h->free_bytes, h->min_bytes);
    uint64_t reclaimed = 0;

    *stalled = 0;
    if (demand > spare) {
        reclaimed = host_reclaim(h, MIN(demand - spare, h->reclaim_bytes));
        *stalled = (double)reclaimed / h->reclaim_bytes;
        spare += reclaimed;
    }
    if (demand > spare) {
        spare += host_swap(m, MIN(demand - spare, SWAP_BYTES_PER_S * step_s));
        *stalled = MAX(*stalled, 1 - (double)MIN(spare, demand) / demand);
    }
    return MIN(demand, spare);
}

static void host_kswapd(ModelHost *h)
{
    if (h->free_bytes < h->low_bytes) {
        h->kswapd = true;
    }
    if (h->kswapd && h->free_bytes < h->high_bytes) {
        uint64_t wanted = h->high_bytes - h->free_bytes;

        wanted = MIN(wanted, h->reclaim_bytes);
        h->kswapd = host_reclaim(h, wanted) != 0;
    } else {
        h->kswapd = false;
    }
}

static void host_stall(Model *m, double stalled, size_t waiting)
{
    const double step_ns = HOST_STEP_NS;
    /* A CPU that runs another guest is productive; three of ten guests run. */
    double all = MIN(1, waiting / MAX(0.3 * m->count, 1));

    if (stalled > 0) {
        m->result->stall_s += stalled * waiting * step_ns / MODEL_S;
        m->some_ns += stalled * step_ns;
        m->full_ns += stalled * all * step_ns;
        m->psi_until_ns = m->now_ns + m->some.window_ns;
    }
}

static void host_psi(Model *m)
{
    bool some, full;

    if (m->now_ns < m->psi_ns) {
        return;
    }
    m->psi_ns = m->now_ns + m->some.window_ns / 10;
    some = psi_trigger_update(&m->some, m->now_ns, m->some_ns);
    full = psi_trigger_update(&m->full, m->now_ns, m->full_ns);
    if (some || full) {
        m->some_events += some;
        m->full_events += full;
        model_control_psi(m);
    }
}

static uint64_t guest_demand(const ModelGuest *g)
{
    return MIN(g->wanted_bytes, FAULT_BYTES_PER_S / MODEL_S * HOST_STEP_NS);
}

static void host_step(Model *m)
{
    uint64_t demand = 0, granted;
    double stalled, share;
    size_t waiting = m->active_count, left = 0;

    host_grow_cache(&m->host, m->now_ns);
    for (size_t i = 0; i < m->active_count; i++) {
        demand += guest_demand(m->active[i]);
    }
    granted = host_grant(m, demand, &stalled);
    share = demand ? (double)granted / demand : 0;
    for (size_t i = 0; i < m->active_count; i++) {
        ModelGuest *g = m->active[i];
        uint64_t bytes = guest_demand(g) * share;

        m->result->refaulted_bytes += guest_fault(g, bytes);
        m->host.free_bytes -= MIN(bytes, m->host.free_bytes);
        m->backed_bytes += bytes;
        if (g->wanted_bytes) {
            m->active[left++] = g;
        } else {
            g->active = false;
        }
    }
    m->active_count = left;
    host_stall(m, stalled, waiting);
    host_kswapd(&m->host);
    host_psi(m);
    m->result->least_usable_bytes =
        MIN(m->result->least_usable_bytes, model_available_bytes(&m->host));
    if (m->active_count || m->host.kswapd || m->now_ns < m->psi_until_ns) {
        m->host_ns = m->now_ns + HOST_STEP_NS;
    } else {
        m->host_ns = MODEL_NEVER;
    }
}

/* Events */

static void model_guest_event(Model *m, ModelGuest *g)
{
    uint64_t before = g->freed_bytes, use;

    if (g->pass_ns <= m->now_ns) {
        host_take_back(m, guest_pass(g, m->now_ns));
        m->result->returned_bytes += before - g->freed_bytes;
        m->result->passes++;
    } else {
        use = workload_next(m->config, g, m->now_ns);
        guest_use(g, use, m->now_ns);
        if (g->wanted_bytes && !g->active) {
            g->active = true;
            m->active[m->active_count++] = g;
            m->host_ns = MIN(m->host_ns, m->now_ns + HOST_STEP_NS);
        }
    }
    m->freed_bytes += g->freed_bytes - before;
    model_guest_moved(m, g);
}

static void model_log(Model *m)
{
    fprintf(
        m->config->log, "%.0f,%.3f,%.3f,%.3f,%.3f,%.3f,%d,%u\n",
        (double)m->now_ns / MODEL_S, (double)model_available_bytes(&m->host) / MODEL_GIB,
        (double)m->outcome.floor_bytes / MODEL_GIB, (double)m->freed_bytes / MODEL_GIB,
        (double)m->result->refaulted_bytes / MODEL_GIB, m->result->stall_s,
        m->outcome.state, m->guests[0].delay_ms);
    m->log_ns = m->now_ns + MODEL_S;
}

static void model_advance(Model *m, int64_t to_ns)
{
    m->backlog_byte_s += (double)m->freed_bytes * (to_ns - m->now_ns) / MODEL_S;
    m->now_ns = to_ns;
}

/* Handles what is due next; false at the end */
static bool model_event(Model *m)
{
    int64_t guest_ns = guest_next_ns(m->heap[0]);
    int64_t next_ns = MIN(MIN(guest_ns, m->host_ns), MIN(m->control_ns, m->log_ns));

    if (next_ns >= m->config->duration_ns) {
        model_advance(m, m->config->duration_ns);
        return false;
    }
    model_advance(m, next_ns);
    if (next_ns == guest_ns) {
        model_guest_event(m, m->heap[0]);
    } else if (next_ns == m->host_ns) {
        host_step(m);
    } else if (next_ns == m->control_ns) {
        model_control_step(m);
    } else {
        model_log(m);
    }
    return true;
}

static void model_start(Model *m, const ModelConfig *config, ModelResult *result)
{
    uint64_t total = 0;

    *result = (ModelResult){ .least_usable_bytes = UINT64_MAX };
    m->config = config;
    m->result = result;
    m->guests = calloc(config->guests, sizeof(*m->guests));
    m->heap = calloc(config->guests, sizeof(ModelGuest *));
    m->active = calloc(config->guests, sizeof(ModelGuest *));
    for (size_t i = 0; i < config->guests; i++) {
        ModelGuest *g = &m->guests[i];

        g->random.state = (config->seed * 1000003 + i) * UINT64_C(0x9e3779b97f4a7c15) | 1;
        workload_start(config, g, i);
        g->delay_ms = 2000;
        g->pass_ns = 2 * MODEL_S;
        total += g->total_bytes;
        m->count = i + 1;
        heap_put(m, i, g);
        model_guest_moved(m, g);
    }
    host_init(&m->host, total, config->overcommit_percent);
    psi_trigger_init(&m->some, 100 * MODEL_MS, MODEL_S, 0);
    psi_trigger_init(&m->full, 50 * MODEL_MS, MODEL_S, 0);
    m->now_ns = 1;
    m->host_ns = MODEL_NEVER;
    m->log_ns = config->log ? MODEL_S : MODEL_NEVER;
    model_control_start(m);
}

void model_config_init(ModelConfig *config)
{
    *config = (ModelConfig){
        .work = MODEL_MIXED,
        .control = MODEL_STEER,
        .fixed_delay_ms = 2000,
        .guests = 100,
        .duration_ns = 3600 * MODEL_S,
        .seed = 1,
        .overcommit_percent = 200,
        .square_high_percent = 75,
    };
    policy_config_init(&config->policy);
}

void model_run(const ModelConfig *config, ModelResult *result)
{
    Model m = { 0 };

    model_start(&m, config, result);
    while (model_event(&m)) {
    }
    model_control_end(&m);
    result->some_s = (double)m.some_ns / MODEL_S;
    result->full_s = (double)m.full_ns / MODEL_S;
    result->mean_backlog_bytes =
        m.backlog_byte_s / ((double)config->duration_ns / MODEL_S);
    free(m.guests);
    free(m.heap);
    free(m.active);
}
