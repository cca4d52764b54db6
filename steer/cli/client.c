/*
 * The operator's end of the control socket
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <gio/gio.h>
#include <gio/gunixsocketaddress.h>

#include "client.h"
#include "status.h"

/* A daemon that does not answer by then is busy with something else. */
#define TIME_OUT_S 10

struct Connection {
    GSocketConnection *socket;
    GDataInputStream *input;
};

Connection *connection_new(const char *path, GError **errp)
{
    g_autoptr(GSocketClient) client = g_socket_client_new();
    g_autoptr(GSocketAddress) address = g_unix_socket_address_new(path);
    GSocketConnection *socket;
    Connection *connection;

    g_socket_client_set_timeout(client, TIME_OUT_S);
    socket = g_socket_client_connect(client, G_SOCKET_CONNECTABLE(address), NULL, errp);
    if (!socket) {
        g_prefix_error(errp, "%s: ", path);
        return NULL;
    }
    connection = g_new0(Connection, 1);
    connection->socket = socket;
    connection->input =
        g_data_input_stream_new(g_io_stream_get_input_stream(G_IO_STREAM(socket)));
    return connection;
}

void connection_free(Connection *connection)
{
    g_object_unref(connection->input);
    g_object_unref(connection->socket);
    g_free(connection);
}

bool connection_no_daemon(const GError *error)
{
    return g_error_matches(error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND) ||
           g_error_matches(error, G_IO_ERROR, G_IO_ERROR_CONNECTION_REFUSED);
}

static JsonNode *parse_answer(const char *line, GError **errp)
{
    g_autoptr(JsonParser) parser = json_parser_new();
    JsonObject *object;

    if (!json_parser_load_from_data(parser, line, -1, errp)) {
        return NULL;
    }
    if (!JSON_NODE_HOLDS_OBJECT(json_parser_get_root(parser))) {
        g_set_error(errp, G_IO_ERROR, G_IO_ERROR_INVALID_DATA,
                    "the daemon's answer is no object");
        return NULL;
    }
    object = json_node_get_object(json_parser_get_root(parser));
    if (!json_object_has_member(object, "return")) {
        g_set_error(errp, G_IO_ERROR, G_IO_ERROR_FAILED, "%s",
                    json_object_get_string_member_with_default(
                        object, "error", "the daemon gave no answer"));
        return NULL;
    }
    return json_object_dup_member(object, "return");
}

JsonNode *connection_ask(Connection *connection, const char *command, const char *vm,
                         const char *more, GError **errp)
{
    g_autoptr(GString) request = g_string_new("{\"command\":");
    g_autofree char *line = NULL;
    GOutputStream *output;

    status_quote(request, command);
    if (vm) {
        g_string_append(request, ",\"vm\":");
        status_quote(request, vm);
    }
    if (more) {
        g_string_append_printf(request, ",%s", more);
    }
    g_string_append(request, "}\n");
    output = g_io_stream_get_output_stream(G_IO_STREAM(connection->socket));
    if (!g_output_stream_write_all(output, request->str, request->len, NULL, NULL,
                                   errp)) {
        return NULL;
    }
    line = g_data_input_stream_read_line(connection->input, NULL, NULL, errp);
    if (!line) {
        if (errp && !*errp) {
            g_set_error(errp, G_IO_ERROR, G_IO_ERROR_CLOSED,
                        "the daemon closed the connection");
        }
        return NULL;
    }
    return parse_answer(line, errp);
}
