/*
 * PSI triggers, by the rules of Linux' kernel/sched/psi.c
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef STEER_MODEL_PSI_H
#define STEER_MODEL_PSI_H

#include <stdbool.h>
#include <stdint.h>

/* One trigger. Times and totals in nanoseconds. */
typedef struct PsiTrigger {
    int64_t threshold_ns;
    int64_t window_ns;
    int64_t start_ns;           /* of the window */
    int64_t start_total_ns;     /* stall at its start */
    int64_t previous_growth_ns; /* stall of the window before */
    int64_t last_total_ns;
    int64_t last_event_ns;
    bool pending;
} PsiTrigger;

void psi_trigger_init(PsiTrigger *t, int64_t threshold_ns, int64_t window_ns,
                      int64_t now_ns);

/*
 * What the kernel does ten times a window while there is stall (with
 * CAP_SYS_RESOURCE), or every 2 s (without).
 * @total_ns: the stall up to now
 * Returns whether it raises an event: the stall of the sliding window is over
 * the threshold, and the last event is a window away.
 */
bool psi_trigger_update(PsiTrigger *t, int64_t now_ns, int64_t total_ns);

#endif /* STEER_MODEL_PSI_H */
