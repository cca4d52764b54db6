/*
 * The law's words, for log, metrics and people
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "policy.h"

#define NAME(names, value)                                                               \
    ((size_t)(value) < sizeof(names) / sizeof((names)[0]) ? (names)[value] : "?")

const char *policy_state_name(PolicyState state)
{
    static const char *const names[POLICY_STATES] = {
        [POLICY_CALM] = "CALM",   [POLICY_EASY] = "EASY",     [POLICY_WATCH] = "WATCH",
        [POLICY_TIGHT] = "TIGHT", [POLICY_URGENT] = "URGENT",
    };

    return NAME(names, state);
}

const char *policy_reason_name(PolicyReason reason)
{
    static const char *const names[POLICY_REASONS] = {
        [POLICY_REASON_START] = "start",
        [POLICY_REASON_AVAILABLE] = "available memory",
        [POLICY_REASON_TTE] = "time to empty",
        [POLICY_REASON_PSI_SOME] = "PSI some",
        [POLICY_REASON_PSI_FULL] = "PSI full",
        [POLICY_REASON_BLIND] = "memory unreadable",
        [POLICY_REASON_RELAXED] = "quiet",
    };

    return NAME(names, reason);
}

const char *policy_hold_name(PolicyHold hold)
{
    static const char *const names[POLICY_HOLDS] = {
        [POLICY_HOLD_NONE] = "nothing",    [POLICY_HOLD_CONDITION] = "its condition",
        [POLICY_HOLD_TIME] = "the hold",   [POLICY_HOLD_HEADROOM] = "too little headroom",
        [POLICY_HOLD_PSI] = "a PSI event",
    };

    return NAME(names, hold);
}

const char *policy_why_name(PolicyWhy why)
{
    static const char *const names[POLICY_WHYS] = {
        [POLICY_WHY_STATE] = "host state",
        [POLICY_WHY_PINNED] = "pinned",
        [POLICY_WHY_NO_EFFECT] = "no effect",
        [POLICY_WHY_MIGRATING] = "migrating",
        [POLICY_WHY_STOPPING] = "stopping",
        [POLICY_WHY_STEER_NO] = "steer=no",
        [POLICY_WHY_UNREACHABLE] = "unreachable",
        [POLICY_WHY_NOT_OFFERED] = "not offered",
        [POLICY_WHY_NOT_NEGOTIATED] = "not negotiated",
        [POLICY_WHY_INHIBITED] = "inhibited",
        [POLICY_WHY_OTHER_WRITER] = "another writer",
        [POLICY_WHY_TAKING_BACK] = "taking back",
        [POLICY_WHY_BACK_OFF] = "back-off",
    };

    return NAME(names, why);
}
