/*
 * A look at a line of JSON that a stranger wrote, before it is parsed
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef STEER_JSON_SCAN_H
#define STEER_JSON_SCAN_H

#include <stdbool.h>
#include <glib.h>

/* A json parser recurses; QEMU's own deepest reply is far from this. */
#define JSON_SCAN_DEPTH_MAX 32

/* A member of the outermost object: its value as text, NULL if absent. */
typedef struct JsonMember {
    const char *name;
    const char *text;
    gsize length;
} JsonMember;

/*
 * See whether @text is one JSON object: UTF-8, brackets and quotes in order,
 * no deeper than JSON_SCAN_DEPTH_MAX, nothing behind it.  Neither allocates
 * nor recurses.  Numbers and words are left for the parser to judge.
 *
 * @members: gets the values of those members that it names.  Of a member that
 * is there twice, the first; a name with an escape in it is never one of them.
 */
bool json_scan(const char *text, gsize length, JsonMember *members, gsize count);

#endif
