/*
 * The daemon's answers as a person reads them, in 80 columns
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef STEER_VIEW_H
#define STEER_VIEW_H

#include <stdbool.h>
#include <stdio.h>
#include <json-glib/json-glib.h>

typedef struct ViewOptions {
    int rows;    /* VMs at most, 0 for all */
    int columns; /* at least 80 */
} ViewOptions;

/* The host in three lines, then a line for each VM. */
void view_status(FILE *out, JsonObject *status, const ViewOptions *options);

/* One VM in sentences. */
void view_explain(FILE *out, JsonObject *explain);

/* "50 ms", "2 s", "1.5 s", "30 s", "10 min". */
char *view_ms(int64_t ms);
/* "512 B", "12 K", "1.5 G". */
char *view_bytes(int64_t bytes);

#endif
