/*
 * What the model's files share
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef STEER_MODEL_INTERNAL_H
#define STEER_MODEL_INTERNAL_H

#include "model.h"

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* Transitions that are remembered, for how often they change direction */
#define MODEL_HISTORY 32

typedef struct ModelHost {
    uint64_t ram_bytes;
    uint64_t free_bytes;
    uint64_t cache_bytes, cache_min_bytes, cache_max_bytes;
    uint64_t swapped_bytes;
    uint64_t reclaim_bytes;                    /* of cache, in a step */
    uint64_t min_bytes, low_bytes, high_bytes; /* watermarks */
    int64_t cache_ns;
    bool kswapd;
} ModelHost;

/* What a model QEMU was asked for */
struct ModelQemu {
    uint32_t requested_ms;
    int64_t lease_ns; /* when it ends */
};

struct Model {
    const ModelConfig *config;
    ModelResult *result;
    int64_t now_ns;

    size_t count;
    ModelGuest *guests;
    ModelGuest **heap;
    ModelGuest **active; /* those that wait for memory */
    size_t active_count;
    uint64_t backed_bytes; /* used and freed, of all guests; with swap */
    uint64_t freed_bytes;
    double backlog_byte_s;

    ModelHost host;
    int64_t host_ns;          /* its next step */
    int64_t some_ns, full_ns; /* PSI's totals */
    PsiTrigger some, full;
    int64_t psi_ns, psi_until_ns;
    uint32_t some_events, full_events;

    int64_t control_ns;
    int64_t log_ns;

    /* The law's side */
    PolicyHost policy;
    PolicyVm *vms;
    PolicyVmSample *samples;
    PolicyCommand *commands;
    struct ModelQemu *qemus;
    PolicyOutcome outcome;
    uint32_t *calm_commands;
    double calm_s;
    int64_t last_step_ns;
    int64_t share_ns, share_some_ns;
    uint32_t share_permille;
    int64_t changed_ns[MODEL_HISTORY];
    int direction[MODEL_HISTORY];
};

void model_guest_moved(Model *m, ModelGuest *g);
uint64_t model_available_bytes(const ModelHost *h);

/* control.c */
void model_control_start(Model *m);
void model_control_step(Model *m);
void model_control_psi(Model *m);
void model_control_end(Model *m);

#endif /* STEER_MODEL_INTERNAL_H */
