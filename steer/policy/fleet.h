/*
 * Fake QEMUs for the law's tests: they take commands, keep leases, answer
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef STEER_POLICY_FLEET_H
#define STEER_POLICY_FLEET_H

#include <glib.h>

#include "policy.h"

#define FLEET_MS INT64_C(1000000)
#define FLEET_S (1000 * FLEET_MS)
#define FLEET_MIB UINT64_C(1048576)
#define FLEET_GIB (1024 * FLEET_MIB)

/* How a QEMU takes commands */
typedef enum FleetManner {
    FLEET_OBEYS,
    FLEET_STUCK,  /* takes nothing, answers nothing */
    FLEET_SILENT, /* takes it, answers nothing */
    FLEET_REFUSES,
} FleetManner;

typedef struct FleetVm {
    FleetManner manner;
    uint32_t own_ms;   /* what the guest does without a request */
    uint32_t guest_ms; /* another writer in the guest, or NONE */
    uint32_t requested_ms;
    int64_t lease_ns; /* when it ends */
    uint32_t commands;
    uint32_t sets; /* that changed something */
} FleetVm;

typedef struct Fleet {
    PolicyConfig config;
    PolicyHost host;
    PolicySample sample;
    PolicyOutcome outcome;
    int64_t now_ns;
    bool frozen; /* no query is answered */
    size_t count;
    PolicyVm *vms;
    PolicyVmSample *samples;
    FleetVm *qemus;
    PolicyCommand *commands; /* of the last step */
    uint64_t commands_total;
} Fleet;

/*
 * F is 1 GiB; the host is calm; each VM of 4 GiB has used half of it. VMs that
 * return nothing do not rest, unless a test sets no_effect_permille.
 */
Fleet *fleet_new(size_t count, uint64_t seed);
void fleet_free(Fleet *f);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Fleet, fleet_free)

/* Usable memory, in percent of F */
void fleet_set_memory(Fleet *f, uint64_t percent);
/* One step now; the commands are carried out */
void fleet_step(Fleet *f);
/* One step after @ms */
void fleet_step_after(Fleet *f, int64_t ms);
/* As a daemon does: step whenever the law wants to, for @ms */
void fleet_run(Fleet *f, int64_t ms);
/* What the guest of a VM does now */
uint32_t fleet_delay_ms(Fleet *f, size_t index, int64_t now_ns);
/* The command of a VM in the last step, or NULL */
const PolicyCommand *fleet_command(const Fleet *f, size_t index);

#endif /* STEER_POLICY_FLEET_H */
