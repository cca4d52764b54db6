/*
 * How much memory the host has left: /proc/meminfo, /proc/zoneinfo and the
 * memory of single processes
 *
 * The parsers take text, bounded by its length; it need not end with a NUL.
 * What they cannot read is an error that names the field, never a zero.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef STEER_MEMINFO_H
#define STEER_MEMINFO_H

#include <stdbool.h>
#include <stdint.h>
#include <glib.h>

typedef struct Meminfo {
    uint64_t total_bytes;
    uint64_t available_bytes;
    uint64_t free_bytes;
} Meminfo;

bool meminfo_parse(const char *text, gsize length, Meminfo *info, GError **errp);

/*
 * The sum of all zones' high watermarks.  A host without a single one is an
 * error.
 * @page_bytes: the size of a page
 */
bool zoneinfo_parse(const char *text, gsize length, uint64_t page_bytes,
                    uint64_t *high_bytes, GError **errp);

/* The resident bytes in the text of /proc/PID/statm. */
bool statm_parse(const char *text, gsize length, uint64_t page_bytes, uint64_t *rss_bytes,
                 GError **errp);

#endif
