/*
 * The log: structured fields for the journal, lines for everybody else
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <stdio.h>
#include <unistd.h>

#include "log.h"

/* Of one kind, for `journalctl MESSAGE_ID=...`. */
#define TRANSITION_ID "5c1d0b0f6a0e4d1c9d3b7f0c8e21a4b6"

static bool verbose;

/* GLib's own debug messages are nobody's here. */
static bool is_ours(const GLogField *fields, gsize count)
{
    for (gsize i = 0; i < count; i++) {
        if (g_str_equal(fields[i].key, "GLIB_DOMAIN")) {
            return g_str_equal(fields[i].value, G_LOG_DOMAIN);
        }
    }
    return false;
}

static GLogWriterOutput log_writer(GLogLevelFlags level, const GLogField *fields,
                                   gsize count, gpointer opaque)
{
    const char *message = "";

    if (level & (G_LOG_LEVEL_DEBUG | G_LOG_LEVEL_INFO) &&
        !(verbose && is_ours(fields, count))) {
        return G_LOG_WRITER_HANDLED;
    }
    if (g_log_writer_is_journald(STDERR_FILENO) &&
        g_log_writer_journald(level, fields, count, opaque) == G_LOG_WRITER_HANDLED) {
        return G_LOG_WRITER_HANDLED;
    }
    for (gsize i = 0; i < count; i++) {
        if (g_str_equal(fields[i].key, "MESSAGE")) {
            message = fields[i].value;
        }
    }
    fprintf(stderr, "balloon-steer: %s%s\n",
            level & G_LOG_LEVEL_WARNING ? "warning: " : "", message);
    fflush(stderr);
    return G_LOG_WRITER_HANDLED;
}

void log_init(bool with_debug)
{
    verbose = with_debug;
    g_log_set_writer_func(log_writer, NULL, NULL);
}

void log_text(GLogLevelFlags level, const char *format, ...)
{
    g_autofree char *text = NULL;
    va_list arguments;

    va_start(arguments, format);
    text = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_log_structured(G_LOG_DOMAIN, level, "MESSAGE", "%s", text);
}

void log_vm(GLogLevelFlags level, const char *vm, const char *format, ...)
{
    g_autofree char *text = NULL;
    va_list arguments;

    va_start(arguments, format);
    text = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_log_structured(G_LOG_DOMAIN, level, "BALLOON_STEER_VM", vm, "MESSAGE", "%s: %s", vm,
                     text);
}

void log_transition(const char *from, const char *to, const char *reason,
                    const char *text)
{
    g_log_structured(G_LOG_DOMAIN, G_LOG_LEVEL_MESSAGE, "MESSAGE_ID", TRANSITION_ID,
                     "BALLOON_STEER_FROM", from, "BALLOON_STEER_STATE", to,
                     "BALLOON_STEER_REASON", reason, "MESSAGE", "%s -> %s: %s", from, to,
                     text);
}
