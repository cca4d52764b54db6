/*
 * The commands of balloon-steer
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef STEER_COMMANDS_H
#define STEER_COMMANDS_H

#include <glib.h>

#include "config.h"

/* Exit statuses: 1 is that something failed. */
#define STATUS_USAGE 2

typedef struct Command Command;

struct Command {
    const char *name;
    const char *arguments;
    const char *help;
    /* @argv: its own name is the first */
    int (*run)(const Command *command, int argc, char **argv);
};

int command_run(const Command *command, int argc, char **argv);
int command_status(const Command *command, int argc, char **argv);
int command_top(const Command *command, int argc, char **argv);
int command_explain(const Command *command, int argc, char **argv);
int command_set(const Command *command, int argc, char **argv);
int command_withdraw(const Command *command, int argc, char **argv);
int command_pin(const Command *command, int argc, char **argv);
int command_unpin(const Command *command, int argc, char **argv);
int command_record(const Command *command, int argc, char **argv);
int command_simulate(const Command *command, int argc, char **argv);
int command_check_config(const Command *command, int argc, char **argv);

/* What more than one of them does; commands.c */

/*
 * Parse @entries, --config and --control; what is left is in argv[1] to
 * argv[*argc - 1].  False: said why, or gave help; exit with *@status.
 * @arguments_min, @arguments_max: how many may be left
 */
bool command_parse(const Command *command, int *argc, char ***argv,
                   const GOptionEntry *entries, int arguments_min, int arguments_max,
                   int *status);

/* --config, or NULL. */
const char *command_config_file(void);

/* The configuration, or NULL and said why. */
Config *command_config(void);

/* --control, or what the configuration says. */
char *command_control(void);

/* "balloon-steer: ..." on stderr; returns 1. */
int command_fail(const char *format, ...) G_GNUC_PRINTF(1, 2);

/* A whole number up to @max; false and said why otherwise. */
bool command_number(const char *what, const char *text, uint64_t max, uint64_t *value);

/* "90", "90s", "10m", "2h", "1d" in seconds. */
bool command_duration(const char *what, const char *text, uint64_t max_s,
                      uint64_t *seconds);

#endif
