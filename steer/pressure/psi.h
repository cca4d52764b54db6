/*
 * Pressure stall information of memory: /proc/pressure/memory
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef STEER_PSI_H
#define STEER_PSI_H

#include <stdbool.h>
#include <stdint.h>
#include <glib.h>

/* Time for which some, or all, tasks have waited for memory, since boot. */
typedef struct PsiTotals {
    uint64_t some_us;
    uint64_t full_us;
} PsiTotals;

/*
 * The averages in the file move every 2 s only, so only the totals are read;
 * who wants a share of time takes a difference.
 * @text: need not end with a NUL
 */
bool psi_parse(const char *text, gsize length, PsiTotals *totals, GError **errp);

typedef enum PsiKind {
    PSI_SOME,
    PSI_FULL,
} PsiKind;

/*
 * Ask the kernel to tell when tasks have stalled for @percent of a window, the
 * window as short as it grants.
 *
 * The descriptor polls as POLLPRI once for each event, and poll() itself
 * consumes it; POLLERR: the trigger is gone.
 *
 * Returns the descriptor and the window, or -1: no PSI in this kernel, or not
 * for us.
 */
int psi_trigger_open(const char *path, PsiKind kind, unsigned int percent,
                     unsigned int *window_ms, GError **errp);

#endif
