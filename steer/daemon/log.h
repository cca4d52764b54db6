/*
 * The log: structured fields for the journal, lines for everybody else
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef STEER_LOG_H
#define STEER_LOG_H

#include <stdbool.h>
#include <glib.h>

/* Once, before anything is logged; @with_debug: our own debug messages, too. */
void log_init(bool with_debug);

/* A line of text; GLib's levels become the journal's priorities. */
void log_text(GLogLevelFlags level, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* The same about a VM, whose name is a field of its own. */
void log_vm(GLogLevelFlags level, const char *vm, const char *format, ...)
    G_GNUC_PRINTF(3, 4);

/* The host went from one state to another. */
void log_transition(const char *from, const char *to, const char *reason,
                    const char *text);

#define log_warning(...) log_text(G_LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...) log_text(G_LOG_LEVEL_MESSAGE, __VA_ARGS__)
#define log_error(...) log_text(G_LOG_LEVEL_CRITICAL, __VA_ARGS__)

#endif
