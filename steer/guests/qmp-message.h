/*
 * QMP as text: what is sent, and what comes back from a QEMU that is not
 * trusted
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef STEER_QMP_MESSAGE_H
#define STEER_QMP_MESSAGE_H

#include "guest.h"

typedef enum QmpKind {
    QMP_BAD, /* no JSON object, or none that QMP knows */
    QMP_GREETING,
    QMP_RETURN,
    QMP_ERROR,
    QMP_EVENT,
} QmpKind;

/* Spans of the line, which must stay. */
typedef struct QmpMessage {
    QmpKind kind;
    /* RETURN and ERROR; false if there is none, or none of ours. */
    bool has_id;
    uint64_t id;
    /* The value of "return", "error" or "data"; NULL for an event without. */
    const char *body;
    gsize body_length;
    /* EVENT: its name, not terminated. */
    const char *event;
    gsize event_length;
} QmpMessage;

/* @line: without its newline.  Cheap: nothing is allocated. */
void qmp_message_scan(const char *line, gsize length, QmpMessage *message);

bool qmp_message_is_event(const QmpMessage *message, const char *name);

/* A command with its newline; arguments may be NULL, else a JSON object. */
char *qmp_format(const char *command, uint64_t id, const char *arguments);

/* The arguments of balloon-set-report-delay; SET and WITHDRAW. */
char *qmp_format_set(const GuestCommand *command);

/* The bodies of replies.  What is missing or out of range is an error. */
bool qmp_parse_info(const char *body, gsize length, GuestInfo *info, GError **errp);
bool qmp_parse_applied(const char *body, gsize length, uint32_t *applied_ms,
                       uint32_t *requested_ms, GError **errp);
bool qmp_parse_migrating(const char *body, gsize length, bool *migrating, GError **errp);
/* What a guest says it uses: of guest-stats.  False if it does not say. */
bool qmp_parse_used(const char *body, gsize length, uint64_t *used_bytes);
/* The name of the virtio-balloon in a reply to qom-list, or NULL. */
char *qmp_parse_balloon(const char *body, gsize length);
/* "desc" of an error, printable and short. */
char *qmp_parse_error(const char *body, gsize length);

/* Untrusted text for a log: printable, at most @max bytes. */
char *qmp_printable(const char *text, gsize length, gsize max);

#endif
