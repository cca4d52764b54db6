/*
 * A host, its guests, and who sets their report delay, as discrete events
 *
 * See README.md for what is assumed. Sizes are bytes, times nanoseconds from
 * the start of the run.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef STEER_MODEL_MODEL_H
#define STEER_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "policy.h"
#include "psi.h"

#define MODEL_MS INT64_C(1000000)
#define MODEL_S (1000 * MODEL_MS)
#define MODEL_MIB UINT64_C(1048576)
#define MODEL_GIB (1024 * MODEL_MIB)
#define MODEL_NEVER INT64_MAX

typedef enum ModelWork {
    MODEL_IDLE,    /* a little noise */
    MODEL_SQUARE,  /* half of the time a lot, half of it little */
    MODEL_POISSON, /* bursts at random */
    MODEL_BOOT,    /* all start within a minute, every 20 minutes */
    MODEL_SAW,     /* grows, then frees all of it */
    MODEL_DIURNAL, /* a day in an hour */
    MODEL_LEAK,    /* grows and frees nothing: nothing to report */
    MODEL_MIXED,   /* guests of all kinds but the last */
    MODEL_WORKS
} ModelWork;

typedef enum ModelControl {
    MODEL_FIXED,    /* the same delay for ever */
    MODEL_PSI_ONLY, /* 30 s, and 50 ms for 10 s after a PSI event */
    MODEL_STEER,    /* balloon-steer's law */
    MODEL_CONTROLS
} ModelControl;

typedef struct ModelConfig {
    ModelWork work;
    ModelControl control;
    uint32_t fixed_delay_ms;
    size_t guests;
    int64_t duration_ns;
    uint64_t seed;
    uint32_t overcommit_percent;  /* guests' memory, of the host's */
    int64_t square_period_ns;     /* all in step; 0: each its own */
    uint32_t square_high_percent; /* of a guest's memory */
    FILE *log;                    /* a line of CSV a second, or NULL */
    PolicyConfig policy;
} ModelConfig;

typedef struct ModelResult {
    uint64_t refaulted_bytes; /* returned, and wanted back */
    uint64_t returned_bytes;
    uint64_t swapped_bytes;
    uint64_t passes;
    double stall_s;            /* sum over guests */
    double some_s, full_s;     /* as PSI counts it */
    double mean_backlog_bytes; /* freed and not yet returned */
    uint64_t least_usable_bytes;
    double state_s[POLICY_STATES];
    uint32_t transitions;
    uint32_t opposite_in_10s; /* the most in any 10 s */
    uint64_t commands;
    uint64_t other_writers; /* seen where there are none */
    /*
     * Of the VM that got the most, while the host had been CALM for 10 s; 0
     * unless that was so for 10 minutes in all
     */
    uint32_t calm_commands_per_hour;
} ModelResult;

/* xorshift64*: the same run for the same seed anywhere */
typedef struct ModelRandom {
    uint64_t state;
} ModelRandom;

typedef struct ModelGuest {
    /* Guest memory is one of these; the host backs the first two. */
    uint64_t used_bytes;
    uint64_t freed_bytes;     /* backlog: still backed */
    uint64_t returned_bytes;  /* reported and discarded */
    uint64_t untouched_bytes; /* reported, never backed */
    uint64_t fresh_bytes;     /* neither reported nor ever backed */
    uint64_t total_bytes;
    uint64_t wanted_bytes; /* asked for; waits for the host */

    uint32_t delay_ms;
    int64_t requested_ns;     /* when the pending pass was asked for */
    int64_t pass_ns;          /* when it is due, or never */
    uint64_t discarded_bytes; /* QEMU's counter */

    ModelWork work;
    ModelRandom random;
    int64_t work_ns;
    int64_t period_ns;
    uint32_t phase;
    uint64_t burst_bytes;

    size_t heap_at;
    bool active; /* in the list of those that wait */
} ModelGuest;

typedef struct Model Model;

void model_config_init(ModelConfig *config);
void model_run(const ModelConfig *config, ModelResult *result);

/* For workloads */
void workload_start(const ModelConfig *config, ModelGuest *g, size_t index);
/* What the guest wants to use from now on; sets .work_ns to when that ends */
uint64_t workload_next(const ModelConfig *config, ModelGuest *g, int64_t now_ns);
uint64_t model_random(ModelRandom *r);
double model_random_unit(ModelRandom *r);
const char *model_work_name(ModelWork work);
/* MODEL_WORKS if there is none of that name */
ModelWork model_work_by_name(const char *name);

/* For tests: what a guest does by itself */
void guest_use(ModelGuest *g, uint64_t use_bytes, int64_t now_ns);
/* Returns what the host gets back */
uint64_t guest_pass(ModelGuest *g, int64_t now_ns);
/* The host has backed that much; returns what of it had been returned */
uint64_t guest_fault(ModelGuest *g, uint64_t bytes);
void guest_set_delay(ModelGuest *g, uint32_t delay_ms, int64_t now_ns);

#endif /* STEER_MODEL_MODEL_H */
