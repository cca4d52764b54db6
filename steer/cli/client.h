/*
 * The operator's end of the control socket
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef STEER_CLIENT_H
#define STEER_CLIENT_H

#include <stdbool.h>
#include <glib.h>
#include <json-glib/json-glib.h>

typedef struct Connection Connection;

/* NULL: G_IO_ERROR_NOT_FOUND or _CONNECTION_REFUSED if no daemon runs. */
Connection *connection_new(const char *path, GError **errp);
void connection_free(Connection *connection);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Connection, connection_free)

/*
 * The value of "return"; an error if there is none.
 * @command: of the daemon
 * @vm: or NULL
 * @more: more members, such as "\"for-s\":5", or NULL
 */
JsonNode *connection_ask(Connection *connection, const char *command, const char *vm,
                         const char *more, GError **errp);

/* Whether the error of connection_new() means that no daemon runs. */
bool connection_no_daemon(const GError *error);

#endif
