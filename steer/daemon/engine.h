/*
 * Measure, decide, act: the table of VMs and what a tick does with it
 *
 * The decisions are policy_step()'s; this gathers what it wants to know, and
 * sends what it returns.  Runs in the main thread.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef STEER_ENGINE_H
#define STEER_ENGINE_H

#include "config.h"
#include "guest.h"
#include "policy.h"
#include "probe.h"
#include "proc-file.h"

/* All that is kept of a VM, but for what the policy keeps. */
typedef struct Vm {
    Guest *guest;
    char *name; /* unique */
    ConfigVm config;
    ProcFile statm;
    pid_t pid; /* whose statm it is */

    /* The last answer of a query. */
    bool known;
    GuestInfo info;
    int64_t known_ns;
    int64_t query_ns; /* when the last one was sent */
    bool query_out;
    unsigned int queries;
    uint64_t returned_bytes_per_s;
    int64_t migration_ns; /* when it was last told whether it migrates */

    /* What was last said of it, so as not to say it again. */
    char *told;
    int64_t told_ns;
    PolicyWhy told_why;

    /* --dry-run: what QEMU would hold. */
    uint32_t pretended_ms;
} Vm;

typedef struct Pin {
    uint32_t delay_ms; /* POLICY_DELAY_NONE: no request */
    int64_t until_ns;
} Pin;

typedef struct EngineCounters {
    uint64_t ticks;
    uint64_t tick_ns_max;
    uint64_t transitions;
    uint64_t sets, renewals, withdrawals, queries;
    uint64_t ok, refused, lost, migrating;
    uint64_t psi_some, psi_full;
} EngineCounters;

typedef struct Engine {
    Config *config;
    bool dry_run;
    bool stopping;
    Probe *probe;
    GPtrArray *backends;
    GuestListener listener;

    /* Parallel, vm_count long, with room for vm_room. */
    Vm *vms;
    PolicyVm *states;
    PolicyVmSample *samples;
    PolicyCommand *commands;
    size_t vm_count, vm_room;
    GHashTable *by_name; /* name -> index + 1 */
    GHashTable *pins;    /* name -> Pin; outlive their VM */
    size_t query_cursor;

    PolicyHost host;
    PolicySample sample;
    PolicyOutcome outcome;
    int64_t tick_ns, started_ns;
    EngineCounters counters;

    GSource *timer;
    /* After each tick; may be NULL. */
    void (*ticked)(void *opaque);
    void *opaque;

    /* VM lines that may still be logged in this period. */
    unsigned int lines_left;
    unsigned int lines_held;
    int64_t lines_ns;
} Engine;

/* Takes @config.  Nothing runs before engine_add_backend(). */
Engine *engine_new(Config *config, bool dry_run);
void engine_free(Engine *engine);

bool engine_add_backend(Engine *engine, const GuestBackendClass *class, const char *where,
                        GError **errp);

/* Takes @config; what can only be set at the start stays as it was. */
void engine_reload(Engine *engine, Config *config);

/* Tick now, or as soon as a tick may follow the last one. */
void engine_kick(Engine *engine);

/* Withdraw all; ticks go on until engine_is_idle(). */
void engine_stop(Engine *engine);
bool engine_is_idle(const Engine *engine);

/* The index, or -1. */
gssize engine_find(const Engine *engine, const char *name);

/* A VM's pin, or none with @pin NULL.  The VM need not be there. */
void engine_pin(Engine *engine, const char *name, const Pin *pin);
const Pin *engine_get_pin(const Engine *engine, const char *name);

#endif
