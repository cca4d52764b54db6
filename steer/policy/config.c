/*
 * What may be configured: keys, standard values, ranges
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <inttypes.h>
#include <stdio.h>

#include "policy.h"

/* clang-format off */
#define KEY(field, name, min, max, standard, help) \
    { name, offsetof(PolicyConfig, field), min, max, standard, help }
/* clang-format on */

/* A day, in milliseconds: longer than any wait that makes sense here */
#define DAY_MS 86400000

const PolicyConfigKey policy_config_keys[] = {
    KEY(floor_mib, "floor-mib", 0, 1u << 30, 0,
        "what the host needs to itself (F); 0: computed"),
    KEY(floor_base_mib, "floor-base-mib", 1, 1u << 30, 899,
        "F at least, on a host up to floor-base-ram-mib"),
    KEY(floor_base_ram_mib, "floor-base-ram-mib", 0, 1u << 30, 28 * 1024,
        "RAM that floor-base-mib covers"),
    KEY(floor_ram_permille, "floor-ram-permille", 0, 1000, 10,
        "what F grows by with RAM beyond that"),
    KEY(floor_watermark_percent, "floor-watermark-percent", 0, 10000, 200,
        "F at least, in percent of the zones' high watermarks"),

    KEY(easy_below_floor_percent, "easy-below-floor-percent", 1, 100000, 800,
        "EASY below this usable memory, in percent of F"),
    KEY(watch_below_floor_percent, "watch-below-floor-percent", 1, 100000, 400,
        "WATCH below this"),
    KEY(tight_below_floor_percent, "tight-below-floor-percent", 1, 100000, 200,
        "TIGHT below this"),
    KEY(urgent_below_floor_percent, "urgent-below-floor-percent", 1, 100000, 100,
        "URGENT below this"),
    KEY(zero_below_floor_percent, "zero-below-floor-percent", 0, 100000, 50,
        "a delay of 0 below this, for zero-delay-for-ms"),
    KEY(relax_above_percent, "relax-above-percent", 100, 10000, 125,
        "a state is left above this, in percent of its bound"),

    KEY(tight_tte_ms, "tight-tte-ms", 0, DAY_MS, 15000,
        "TIGHT if usable memory would last less than this"),
    KEY(urgent_tte_ms, "urgent-tte-ms", 0, DAY_MS, 5000,
        "URGENT if it would last less than this"),
    KEY(tte_average_ms, "tte-average-ms", 1, 60000, 1000,
        "its fall is averaged over this time"),
    KEY(discount_from_permille, "discount-from-permille", 0, 1000, 50,
        "cache counts in full up to this share of memory stall (PSI some)"),
    KEY(discount_to_permille, "discount-to-permille", 1, 1000, 400,
        "and not at all from this share"),

    KEY(calm_delay_ms, "calm-delay-ms", 0, POLICY_DELAY_MS_MAX, 30000,
        "CALM: where a VM's delay starts"),
    KEY(calm_delay_min_ms, "calm-delay-min-ms", 0, POLICY_DELAY_MS_MAX, 10000,
        "CALM: of a VM that uses returned memory no more"),
    KEY(calm_delay_max_ms, "calm-delay-max-ms", 0, POLICY_DELAY_MS_MAX, 60000,
        "CALM: of a VM that takes returned memory back"),
    KEY(easy_delay_ms, "easy-delay-ms", 0, POLICY_DELAY_MS_MAX, 10000, "EASY"),
    KEY(watch_delay_ms, "watch-delay-ms", 0, POLICY_DELAY_MS_MAX, 2000,
        "WATCH; also what a guest is taken to do by itself"),
    KEY(tight_delay_ms, "tight-delay-ms", 0, POLICY_DELAY_MS_MAX, 500, "TIGHT"),
    KEY(urgent_delay_ms, "urgent-delay-ms", 0, POLICY_DELAY_MS_MAX, 50, "URGENT"),
    KEY(zero_delay_for_ms, "zero-delay-for-ms", 0, DAY_MS, 5000,
        "how long a delay of 0 is used at most"),

    KEY(hold_ms, "hold-ms", 0, DAY_MS, 10000, "quiet time before a step down"),
    KEY(hold_max_ms, "hold-max-ms", 0, DAY_MS, 300000,
        "what it is doubled up to while URGENT returns"),
    KEY(hold_window_ms, "hold-window-ms", 0, DAY_MS, 600000,
        "three times URGENT within this doubles, as long a quiet halves"),
    KEY(psi_veto_ms, "psi-veto-ms", 0, DAY_MS, 10000,
        "no step down for this time after a PSI event"),
    KEY(jitter_ms, "jitter-ms", 0, 60000, 2000, "lengthening is spread over this time"),

    KEY(churn_window_ms, "churn-window-ms", 2, DAY_MS, 60000,
        "memory taken back within this time was returned for nothing"),
    KEY(churn_percent, "churn-percent", 0, 100, 30,
        "a VM that takes back more than this gets a longer calm delay"),
    KEY(churn_factor_percent, "churn-factor-percent", 100, 1000, 150, "by this factor"),
    KEY(calm_step_ms, "calm-step-ms", 0, POLICY_DELAY_MS_MAX, 5000,
        "otherwise one this much shorter"),
    KEY(calm_quiet_ms, "calm-quiet-ms", 1, DAY_MS, 300000, "after each such time"),

    KEY(no_effect_permille, "no-effect-permille", 0, 1000, 10,
        "a VM that returns less than this share of its memory"),
    KEY(no_effect_mib, "no-effect-mib", 0, 1u << 30, 32, "and less than this"),
    KEY(no_effect_delays, "no-effect-delays", 1, 1000, 20,
        "in this many delays rests at the WATCH delay"),
    KEY(no_effect_rest_ms, "no-effect-rest-ms", 0, DAY_MS, 60000, "for this time"),

    KEY(short_lease_ms, "short-lease-ms", 1000, POLICY_LEASE_MS_MAX, 10000,
        "lease of delays under long-lease-from-ms"),
    KEY(long_lease_ms, "long-lease-ms", 1000, POLICY_LEASE_MS_MAX, 1800000,
        "lease of the others"),
    KEY(long_lease_from_ms, "long-lease-from-ms", 0, POLICY_DELAY_MS_MAX, 2000,
        "where long leases begin"),

    KEY(other_writer_rest_ms, "other-writer-rest-ms", 0, DAY_MS, 300000,
        "a VM whose delay somebody else sets is left alone for this time"),
    KEY(take_back_wait_ms, "take-back-wait-ms", 0, DAY_MS, 60000,
        "how long its answer to the withdrawal is waited for"),

    KEY(command_timeout_ms, "command-timeout-ms", 1, 60000, 500,
        "a command without an answer has failed after this time"),
    KEY(back_off_min_ms, "back-off-min-ms", 1, DAY_MS, 1000,
        "wait after a command that failed, doubled each time"),
    KEY(back_off_max_ms, "back-off-max-ms", 1, DAY_MS, 60000, "up to this"),
    KEY(commands_per_s, "commands-per-s", 1, 1000000, 2000,
        "commands a second, after a burst of one for each VM"),

    KEY(tick_min_ms, "tick-min-ms", 1, 60000, 20,
        "how often the host is looked at when it is short"),
    KEY(tick_max_ms, "tick-max-ms", 1, 60000, 1000, "and when it is not"),
    KEY(blind_grace_ms, "blind-grace-ms", 0, DAY_MS, 2000,
        "how long unreadable memory figures change nothing"),
};

const size_t policy_config_keys_count =
    sizeof(policy_config_keys) / sizeof(policy_config_keys[0]);

/* What must not be above what, each pair a reason of its own */
static const struct {
    size_t low, high;
    bool equal;
} orders[] = {
/* clang-format off */
#define ORDER(low, high, equal) \
    { offsetof(PolicyConfig, low), offsetof(PolicyConfig, high), equal }
    /* clang-format on */
    ORDER(zero_below_floor_percent, urgent_below_floor_percent, true),
    ORDER(urgent_below_floor_percent, tight_below_floor_percent, false),
    ORDER(tight_below_floor_percent, watch_below_floor_percent, false),
    ORDER(watch_below_floor_percent, easy_below_floor_percent, false),
    ORDER(urgent_delay_ms, tight_delay_ms, true),
    ORDER(tight_delay_ms, watch_delay_ms, true),
    ORDER(watch_delay_ms, easy_delay_ms, true),
    ORDER(easy_delay_ms, calm_delay_min_ms, true),
    ORDER(calm_delay_min_ms, calm_delay_ms, true),
    ORDER(calm_delay_ms, calm_delay_max_ms, true),
    ORDER(urgent_tte_ms, tight_tte_ms, true),
    ORDER(discount_from_permille, discount_to_permille, false),
    ORDER(hold_ms, hold_max_ms, true),
    ORDER(short_lease_ms, long_lease_ms, true),
    ORDER(back_off_min_ms, back_off_max_ms, true),
    ORDER(tick_min_ms, tick_max_ms, true),
#undef ORDER
};

static uint32_t config_get(const PolicyConfig *config, size_t offset)
{
    return *(const uint32_t *)((const char *)config + offset);
}

static const char *config_key(size_t offset)
{
    for (size_t i = 0; i < policy_config_keys_count; i++) {
        if (policy_config_keys[i].offset == offset) {
            return policy_config_keys[i].key;
        }
    }
    return "?";
}

void policy_config_init(PolicyConfig *config)
{
    for (size_t i = 0; i < policy_config_keys_count; i++) {
        const PolicyConfigKey *key = &policy_config_keys[i];

        *(uint32_t *)((char *)config + key->offset) = key->standard;
    }
}

bool policy_config_check(const PolicyConfig *config, char *message, size_t size)
{
    for (size_t i = 0; i < policy_config_keys_count; i++) {
        const PolicyConfigKey *key = &policy_config_keys[i];
        uint32_t value = config_get(config, key->offset);

        if (value < key->min || value > key->max) {
            snprintf(message, size,
                     "'%s' is %" PRIu32 ", it must be %" PRIu32 " to %" PRIu32, key->key,
                     value, key->min, key->max);
            return false;
        }
    }
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        uint32_t low = config_get(config, orders[i].low);
        uint32_t high = config_get(config, orders[i].high);

        if (low > high || (low == high && !orders[i].equal)) {
            snprintf(message, size,
                     "'%s' is %" PRIu32 ", it must be %s '%s',"
                     " which is %" PRIu32,
                     config_key(orders[i].low), low,
                     orders[i].equal ? "at most" : "below", config_key(orders[i].high),
                     high);
            return false;
        }
    }
    return true;
}
