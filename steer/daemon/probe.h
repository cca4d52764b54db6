/*
 * The host's memory as the policy wants it: what /proc says, and PSI
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef STEER_PROBE_H
#define STEER_PROBE_H

#include "config.h"
#include "policy.h"

typedef struct Probe Probe;

/* @psi_event: called in the main thread, at once, for each PSI event. */
Probe *probe_new(const Config *config, void (*psi_event)(void *opaque), void *opaque);
void probe_free(Probe *probe);

/* Fill in all of a sample but the VMs, and start counting events anew. */
void probe_read(Probe *probe, PolicySample *sample, int64_t now_ns);

/*
 * The resident bytes of a process, through a file that stays open, so that
 * another process of the same number is never taken for it.
 * Returns POLICY_BYTES_UNKNOWN if there is none.
 */
typedef struct ProcFile ProcFile;
uint64_t probe_rss(ProcFile *file);

/* "triggers of 500 ms", "totals", "none": for people. */
const char *probe_psi_text(const Probe *probe);

#endif
