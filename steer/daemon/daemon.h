/*
 * balloon-steer run
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef STEER_DAEMON_H
#define STEER_DAEMON_H

#include <stdbool.h>

typedef struct DaemonOptions {
    const char *config_file; /* NULL for the usual ones */
    bool dry_run;
    bool verbose;
} DaemonOptions;

/* Until SIGTERM or SIGINT; returns the exit status. */
int daemon_run(const DaemonOptions *options);

#endif
