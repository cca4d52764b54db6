/*
 * PSI triggers, by the rules of Linux' kernel/sched/psi.c
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "psi.h"

void psi_trigger_init(PsiTrigger *t, int64_t threshold_ns, int64_t window_ns,
                      int64_t now_ns)
{
    *t = (PsiTrigger){
        .threshold_ns = threshold_ns,
        .window_ns = window_ns,
        .start_ns = now_ns,
        .last_event_ns = now_ns - window_ns,
    };
}

/* What has stalled in a window that slides, its older part by interpolation */
static int64_t psi_growth(PsiTrigger *t, int64_t now_ns, int64_t total_ns)
{
    int64_t elapsed_ns = now_ns - t->start_ns;
    int64_t growth_ns = total_ns - t->start_total_ns;

    if (elapsed_ns > t->window_ns) {
        t->start_ns = now_ns;
        t->start_total_ns = total_ns;
        t->previous_growth_ns = growth_ns;
        return growth_ns;
    }
    return growth_ns +
           (double)t->previous_growth_ns * (t->window_ns - elapsed_ns) / t->window_ns;
}

bool psi_trigger_update(PsiTrigger *t, int64_t now_ns, int64_t total_ns)
{
    bool stalled = total_ns != t->last_total_ns;

    t->last_total_ns = total_ns;
    if (!stalled && !t->pending) {
        return false;
    }
    if (stalled) {
        int64_t growth_ns = psi_growth(t, now_ns, total_ns);

        if (!t->pending && growth_ns < t->threshold_ns) {
            return false;
        }
        t->pending = true;
    }
    if (now_ns < t->last_event_ns + t->window_ns) {
        return false;
    }
    t->last_event_ns = now_ns;
    t->pending = false;
    return true;
}
