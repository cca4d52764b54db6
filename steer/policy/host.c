/*
 * The host's state: from memory and pressure to one of five words
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "law.h"

uint64_t policy_floor_bytes(const PolicyConfig *config, const PolicySample *sample)
{
    uint64_t covered = config->floor_base_ram_mib * MIB;
    uint64_t base = config->floor_base_mib * MIB;
    uint64_t watermarks;

    if (config->floor_mib) {
        return config->floor_mib * MIB;
    }
    if (sample->ram_bytes > covered) {
        base += law_scale(sample->ram_bytes - covered, config->floor_ram_permille, 1000);
    }
    watermarks =
        law_scale(sample->high_watermark_bytes, config->floor_watermark_percent, 100);
    return MAX(base, watermarks);
}

uint64_t policy_usable_bytes(const PolicyConfig *config, const PolicySample *sample)
{
    uint64_t available = sample->available_bytes;
    uint64_t cache = available - MIN(available, sample->free_bytes);
    uint32_t from = config->discount_from_permille;
    uint32_t to = config->discount_to_permille;
    uint32_t stall = MIN(sample->psi_some_permille, to);

    if (!sample->psi || stall <= from) {
        return available;
    }
    return available - law_scale(cache, stall - from, to - from);
}

static uint32_t host_bound_percent(const PolicyConfig *config, PolicyState state)
{
    switch (state) {
    case POLICY_URGENT:
        return config->urgent_below_floor_percent;
    case POLICY_TIGHT:
        return config->tight_below_floor_percent;
    case POLICY_WATCH:
        return config->watch_below_floor_percent;
    default:
        return config->easy_below_floor_percent;
    }
}

static bool host_below(const PolicyOutcome *o, uint32_t percent)
{
    return o->usable_bytes < law_scale(o->floor_bytes, percent, 100);
}

/*
 * How long usable memory lasts. The fall is that of the plain figure: the
 * discount moves with PSI, and a jump of it is no memory that went away.
 */
static void host_update_tte(const PolicyConfig *config, PolicyHost *host,
                            const PolicySample *sample, int64_t now_ns, PolicyOutcome *o)
{
    double elapsed_s = (now_ns - host->last_ns) / 1e9;
    double average_s = config->tte_average_ms / 1e3;
    double fall, tte_ms;

    if (host->last_ns && elapsed_s > 0) {
        fall = ((double)host->last_available_bytes - (double)sample->available_bytes) /
               elapsed_s;
        host->fall_bytes_per_s +=
            (fall - host->fall_bytes_per_s) * elapsed_s / (average_s + elapsed_s);
    }
    host->last_ns = now_ns;
    host->last_available_bytes = sample->available_bytes;

    o->tte_ms = POLICY_TTE_MS_NEVER;
    if (host->fall_bytes_per_s > 0) {
        tte_ms = (double)o->usable_bytes * 1e3 / host->fall_bytes_per_s;
        if (tte_ms < 1e12) {
            o->tte_ms = tte_ms;
        }
    }
}

/* The state that the sample alone asks for */
static PolicyState host_target(const PolicyConfig *config, const PolicySample *sample,
                               const PolicyOutcome *o, PolicyReason *reason)
{
    bool low = host_below(o, config->easy_below_floor_percent);

    *reason = POLICY_REASON_AVAILABLE;
    if (host_below(o, config->urgent_below_floor_percent)) {
        return POLICY_URGENT;
    }
    if (sample->psi && sample->psi_full_events) {
        *reason = POLICY_REASON_PSI_FULL;
        return POLICY_URGENT;
    }
    if (sample->psi && sample->psi_some_events && low) {
        *reason = POLICY_REASON_PSI_SOME;
        return POLICY_URGENT;
    }
    if (o->tte_ms < config->urgent_tte_ms) {
        *reason = POLICY_REASON_TTE;
        return POLICY_URGENT;
    }
    if (host_below(o, config->tight_below_floor_percent)) {
        return POLICY_TIGHT;
    }
    if (o->tte_ms < config->tight_tte_ms) {
        *reason = POLICY_REASON_TTE;
        return POLICY_TIGHT;
    }
    if (host_below(o, config->watch_below_floor_percent)) {
        return POLICY_WATCH;
    }
    if (sample->psi && sample->psi_some_events) {
        *reason = POLICY_REASON_PSI_SOME;
        return POLICY_WATCH;
    }
    return low ? POLICY_EASY : POLICY_CALM;
}

/* URGENT that keeps coming back has been left too soon */
static void host_count_urgent(const PolicyConfig *config, PolicyHost *host,
                              int64_t now_ns)
{
    host->urgent_ns[2] = host->urgent_ns[1];
    host->urgent_ns[1] = host->urgent_ns[0];
    host->urgent_ns[0] = now_ns;
    if (host->urgent_ns[2] &&
        !law_passed(now_ns, host->urgent_ns[2], config->hold_window_ms)) {
        host->hold_ms *= 2;
    }
}

static void host_enter(const PolicyConfig *config, PolicyHost *host, PolicyState state,
                       PolicyReason reason, int64_t now_ns)
{
    if (state > host->state) {
        host->ups++;
    } else if (state < host->state) {
        host->downs++;
    }
    if (state == POLICY_URGENT) {
        host_count_urgent(config, host, now_ns);
    } else {
        host->zero_ns = 0;
    }
    host->state = state;
    host->reason = reason;
    host->entered_ns = now_ns;
    host->confirmed_ns = now_ns;
}

/* Halves the hold after a quiet time, and keeps it in its bounds */
static void host_halve_hold(const PolicyConfig *config, PolicyHost *host, int64_t now_ns)
{
    host->hold_ms = MIN(MAX(host->hold_ms, config->hold_ms), config->hold_max_ms);
    if (host->state == POLICY_URGENT || !host->hold_changed_ns) {
        host->hold_changed_ns = now_ns;
    } else if (host->hold_ms > config->hold_ms &&
               law_passed(now_ns, host->hold_changed_ns, config->hold_window_ms)) {
        host->hold_ms = MAX(host->hold_ms / 2, config->hold_ms);
        host->hold_changed_ns = now_ns;
    }
}

/* What keeps the state from one step down; the sample no longer asks for it */
static PolicyHold host_held_by(const PolicyConfig *config, const PolicyHost *host,
                               const PolicyOutcome *o, int64_t now_ns)
{
    uint32_t percent = law_scale(host_bound_percent(config, host->state),
                                 config->relax_above_percent, 100);

    if (!law_passed(now_ns, host->confirmed_ns, host->hold_ms)) {
        return POLICY_HOLD_TIME;
    }
    if (o->usable_bytes <= law_scale(o->floor_bytes, percent, 100)) {
        return POLICY_HOLD_HEADROOM;
    }
    if (!law_passed(now_ns, host->psi_ns, config->psi_veto_ms)) {
        return POLICY_HOLD_PSI;
    }
    return POLICY_HOLD_NONE;
}

static void host_step_seeing(const PolicyConfig *config, PolicyHost *host,
                             const PolicySample *sample, int64_t now_ns, PolicyOutcome *o)
{
    PolicyReason reason;
    PolicyState target;

    host->readable_ns = now_ns;
    o->usable_bytes = policy_usable_bytes(config, sample);
    o->floor_bytes = policy_floor_bytes(config, sample);
    host_update_tte(config, host, sample, now_ns, o);
    target = host_target(config, sample, o, &reason);

    o->held_by = POLICY_HOLD_NONE;
    if (!host->started || target > host->state) {
        host_enter(config, host, target, reason, now_ns);
        host->started = true;
    }
    if (target == host->state) {
        host->confirmed_ns = now_ns;
        o->held_by = target == POLICY_CALM ? POLICY_HOLD_NONE : POLICY_HOLD_CONDITION;
        return;
    }
    o->held_by = host_held_by(config, host, o, now_ns);
    if (o->held_by == POLICY_HOLD_NONE) {
        host_enter(config, host, host->state - 1, POLICY_REASON_RELAXED, now_ns);
    }
}

/*
 * The host's memory cannot be read. A short delay must not be left behind; a
 * single failure must not make the state jump. A short state is kept for the
 * plain hold at most, which is as long as its leases are.
 */
static void host_step_blind(const PolicyConfig *config, PolicyHost *host, int64_t now_ns,
                            PolicyOutcome *o)
{
    bool held = host->state > POLICY_WATCH &&
                !law_passed(now_ns, host->entered_ns, config->hold_ms);

    o->tte_ms = POLICY_TTE_MS_NEVER;
    o->held_by = held ? POLICY_HOLD_TIME : POLICY_HOLD_CONDITION;
    if (!host->started) {
        host_enter(config, host, POLICY_WATCH, POLICY_REASON_BLIND, now_ns);
        host->started = true;
    } else if (host->state != POLICY_WATCH && !held &&
               law_passed(now_ns, host->readable_ns, config->blind_grace_ms)) {
        host_enter(config, host, POLICY_WATCH, POLICY_REASON_BLIND, now_ns);
    }
}

static uint32_t host_urgent_delay_ms(const PolicyConfig *config, PolicyHost *host,
                                     int64_t now_ns, const PolicyOutcome *o)
{
    if (!o->floor_bytes || !host_below(o, config->zero_below_floor_percent)) {
        return config->urgent_delay_ms;
    }
    /* Once an URGENT: near the bound it would be granted over and over. */
    if (!host->zero_ns) {
        host->zero_ns = now_ns;
    }
    return law_passed(now_ns, host->zero_ns, config->zero_delay_for_ms)
               ? config->urgent_delay_ms
               : 0;
}

static uint32_t host_delay_ms(const PolicyConfig *config, PolicyHost *host,
                              int64_t now_ns, const PolicyOutcome *o)
{
    switch (host->state) {
    case POLICY_URGENT:
        return host_urgent_delay_ms(config, host, now_ns, o);
    case POLICY_TIGHT:
        return config->tight_delay_ms;
    case POLICY_WATCH:
        return config->watch_delay_ms;
    case POLICY_EASY:
        return config->easy_delay_ms;
    default:
        return config->calm_delay_ms;
    }
}

/*
 * The next look: soonest up to the bound of TIGHT, from there on later in
 * proportion to the headroom, and at least twenty times before it is gone.
 */
static int64_t host_tick_ns(const PolicyConfig *config, const PolicyHost *host,
                            const PolicyOutcome *o)
{
    double low = config->tight_below_floor_percent;
    double high = config->easy_below_floor_percent;
    double headroom, tick_ms;

    if (host->state == POLICY_URGENT) {
        return config->tick_min_ms * NS_PER_MS;
    }
    if (!o->floor_bytes) {
        return config->tick_max_ms * NS_PER_MS;
    }
    headroom = 100.0 * o->usable_bytes / o->floor_bytes;
    tick_ms = config->tick_min_ms + (headroom - low) / (high - low) *
                                        (config->tick_max_ms - config->tick_min_ms);
    tick_ms = MIN(tick_ms, o->tte_ms / 20.0);
    tick_ms = MIN(MAX(tick_ms, config->tick_min_ms), config->tick_max_ms);
    return tick_ms * NS_PER_MS;
}

static int64_t host_hold_left_ms(const PolicyHost *host, int64_t now_ns)
{
    int64_t left_ms = host->hold_ms - (now_ns - host->confirmed_ns) / NS_PER_MS;

    return host->state == POLICY_CALM ? 0 : MAX(left_ms, 0);
}

void law_host_step(const PolicyConfig *config, PolicyHost *host,
                   const PolicySample *sample, int64_t now_ns, PolicyOutcome *outcome)
{
    outcome->from = host->state;
    if (sample->psi && (sample->psi_some_events || sample->psi_full_events)) {
        host->psi_ns = now_ns;
    }
    if (sample->readable) {
        host_step_seeing(config, host, sample, now_ns, outcome);
    } else {
        host_step_blind(config, host, now_ns, outcome);
    }
    host_halve_hold(config, host, now_ns);

    outcome->state = host->state;
    outcome->reason = host->reason;
    outcome->delay_ms = host_delay_ms(config, host, now_ns, outcome);
    outcome->hold_ms = host->hold_ms;
    outcome->hold_left_ms = host_hold_left_ms(host, now_ns);
    outcome->next_ns = now_ns + host_tick_ns(config, host, outcome);
}

void policy_host_init(PolicyHost *host, const PolicyConfig *config, uint64_t seed)
{
    *host = (PolicyHost){
        .seed = seed,
        .state = POLICY_CALM,
        .reason = POLICY_REASON_START,
        .hold_ms = config->hold_ms,
    };
}
