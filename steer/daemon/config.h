/*
 * Configuration: key files with drop-ins
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef STEER_CONFIG_H
#define STEER_CONFIG_H

#include <stdbool.h>
#include <glib.h>

#include "policy.h"

/* The main file and NAME.d/ are looked for in these, the strongest first. */
extern const char *const config_folders[];
#define CONFIG_FILE "balloon-steer.conf"

/* A section [vm GLOB]; what it does not set is UNSET. */
#define CONFIG_UNSET UINT32_MAX

typedef struct ConfigVm {
    char *glob;
    uint32_t steer; /* 0 or 1 */
    uint32_t weight;
    uint32_t min_delay_ms;
    uint32_t max_delay_ms;
} ConfigVm;

typedef enum ConfigPsi {
    CONFIG_PSI_TRIGGERS, /* else totals, else nothing */
    CONFIG_PSI_TOTALS,
    CONFIG_PSI_OFF,
} ConfigPsi;

typedef struct Config {
    PolicyConfig policy;
    char *qmp_folder;  /* "" for none */
    char *libvirt_uri; /* "" for none */
    char *control_socket;
    char *lock_file;
    char *metrics_file; /* "" for none */
    uint32_t metrics_interval_s;
    ConfigPsi psi;
    char *proc_folder;
    /* ConfigVm, in order: of two that match a VM, the later one's keys win. */
    GPtrArray *vms;
    /* What was read, and what an operator should know of it. */
    GPtrArray *files;
    GPtrArray *warnings;
} Config;

/*
 * Read everything.  NULL if anything is wrong; the error then names file,
 * line, section, key, value and what is allowed.
 * @file: read this one alone, without drop-ins; NULL for the usual ones
 */
Config *config_load(const char *file, GError **errp);

/* The same from text that is in memory, as if it were the only file. */
Config *config_parse(const char *text, gsize length, GError **errp);

void config_free(Config *config);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Config, config_free)

/* What holds for a VM of that name: every field is set. */
ConfigVm config_vm(const Config *config, const char *name);

#endif
