/*
 * A step of the law: the host, each VM, and what goes out first
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "law.h"

/* Whether @a goes out after @b. The id makes the order the VMs' own. */
static bool command_after(const PolicyCommand *a, const PolicyCommand *b)
{
    if (a->rank != b->rank) {
        return a->rank > b->rank;
    }
    if (a->key != b->key) {
        return a->key < b->key;
    }
    return a->id > b->id;
}

static void command_sift(PolicyCommand *heap, size_t at, size_t count)
{
    PolicyCommand moved = heap[at];

    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && command_after(&heap[child + 1], &heap[child])) {
            child++;
        }
        if (!command_after(&heap[child], &moved)) {
            break;
        }
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

/* Heap sort: in place, where qsort() may allocate */
static void commands_sort(PolicyCommand *commands, size_t count)
{
    for (size_t i = count / 2; i-- > 0;) {
        command_sift(commands, i, count);
    }
    for (size_t last = count; last-- > 1;) {
        PolicyCommand first = commands[0];

        commands[0] = commands[last];
        commands[last] = first;
        command_sift(commands, 0, last);
    }
}

static void bucket_fill(const PolicyConfig *config, PolicyHost *host, size_t vm_count,
                        int64_t now_ns)
{
    double elapsed_s = (now_ns - host->tokens_ns) / 1e9;

    if (host->tokens_ns) {
        host->tokens += elapsed_s * config->commands_per_s;
    }
    /* A VM that comes brings the one command of its burst along. */
    if (vm_count > host->burst) {
        host->tokens += vm_count - host->burst;
    }
    host->burst = vm_count;
    host->tokens = MIN(host->tokens, (double)host->burst);
    host->tokens_ns = now_ns;
}

static size_t bucket_take(PolicyHost *host, size_t count)
{
    size_t taken = MIN(count, (size_t)host->tokens);

    host->tokens -= taken;
    return taken;
}

/* Reporting has no more to give: every VM that follows the state rests */
static void step_exhausted(PolicyHost *host, size_t resting, PolicyOutcome *o)
{
    bool exhausted = host->state >= POLICY_TIGHT && o->steered && resting == o->steered;

    o->exhausted_changed = exhausted != host->exhausted;
    host->exhausted = o->exhausted = exhausted;
}

size_t policy_step(const PolicyConfig *config, PolicyHost *host, PolicyVm *vms,
                   const PolicySample *sample, int64_t now_ns, PolicyCommand *commands,
                   PolicyOutcome *outcome)
{
    int64_t due_ns = INT64_MAX, soonest_ns;
    size_t count = 0, resting = 0;

    *outcome = (PolicyOutcome){ 0 };
    law_host_step(config, host, sample, now_ns, outcome);

    for (size_t i = 0; i < sample->vm_count; i++) {
        if (outcome->state < outcome->from) {
            law_vm_jitter(config, host, &vms[i], now_ns);
        }
        count += law_vm_step(config, host, &vms[i], sample, i, now_ns, outcome,
                             &commands[count], &due_ns);
        resting += vms[i].why == POLICY_WHY_NO_EFFECT;
        outcome->steered +=
            vms[i].why == POLICY_WHY_NO_EFFECT || vms[i].why == POLICY_WHY_STATE;
    }
    step_exhausted(host, resting, outcome);

    commands_sort(commands, count);
    bucket_fill(config, host, sample->vm_count, now_ns);
    outcome->commands = bucket_take(host, count);
    outcome->postponed = count - outcome->commands;
    for (size_t i = 0; i < outcome->commands; i++) {
        law_vm_send(&vms[commands[i].vm], &commands[i], now_ns);
    }

    soonest_ns = now_ns + config->tick_min_ms * NS_PER_MS;
    due_ns = outcome->postponed ? soonest_ns : MAX(due_ns, soonest_ns);
    outcome->next_ns = MIN(outcome->next_ns, due_ns);
    return outcome->commands;
}

uint32_t policy_query_interval_ms(const PolicyConfig *config, PolicyState state)
{
    switch (state) {
    case POLICY_URGENT:
        return MAX(config->urgent_delay_ms * config->no_effect_delays, 1000);
    case POLICY_TIGHT:
        return 5000;
    case POLICY_WATCH:
        return 10000;
    default:
        return config->churn_window_ms;
    }
}
