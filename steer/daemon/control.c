/*
 * The control socket: a request a line, an answer a line, both JSON
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <gio/gio.h>
#include <glib-unix.h>
#include <json-glib/json-glib.h>

#include "control.h"
#include "json-scan.h"
#include "log.h"
#include "status.h"

#define NS_PER_S INT64_C(1000000000)

/* A request is a line of some words. */
#define REQUEST_MAX 4096

/* A person or two, a monitoring agent; more is a mistake. */
#define CLIENTS_MAX 32

/* One that has asked and does not read, or is silent, is sent away. */
#define CLIENT_IDLE_S 60

typedef struct Client {
    Control *control;
    int fd;
    guint source, time_out;
    bool privileged;
    GString *in;
    GString *out;
    gsize out_done;
} Client;

struct Control {
    Engine *engine;
    char *path;
    int fd;
    guint source;
    GPtrArray *clients;
};

/* Requests */

static char *error_answer(const char *format, ...) G_GNUC_PRINTF(1, 2);

static char *error_answer(const char *format, ...)
{
    g_autofree char *text = NULL;
    GString *json = g_string_new("{\"error\":");
    va_list arguments;

    va_start(arguments, format);
    text = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    status_quote(json, text);
    g_string_append_c(json, '}');
    return g_string_free(json, FALSE);
}

/* True if it is there and in range; otherwise *@answer says what is wrong. */
static bool get_number(JsonObject *request, const char *name, int64_t max, int64_t *value,
                       char **answer)
{
    JsonNode *node = json_object_get_member(request, name);

    if (!node || !JSON_NODE_HOLDS_VALUE(node) ||
        json_node_get_value_type(node) != G_TYPE_INT64 || json_node_get_int(node) < 0 ||
        json_node_get_int(node) > max) {
        *answer =
            error_answer("'%s' must be a number from 0 to %" G_GINT64_FORMAT, name, max);
        return false;
    }
    *value = json_node_get_int(node);
    return true;
}

static const char *get_text(JsonObject *request, const char *name)
{
    JsonNode *node = json_object_get_member(request, name);

    return node && JSON_NODE_HOLDS_VALUE(node) &&
                   json_node_get_value_type(node) == G_TYPE_STRING
               ? json_node_get_string(node)
               : NULL;
}

static char *do_status(Engine *engine, JsonObject *request, const char *vm)
{
    GString *json = g_string_new("{\"return\":");

    (void)request;
    (void)vm;
    status_write(engine, json);
    g_string_append_c(json, '}');
    return g_string_free(json, FALSE);
}

static char *do_explain(Engine *engine, JsonObject *request, const char *vm)
{
    GString *json = g_string_new("{\"return\":");

    (void)request;
    status_explain(engine, engine_find(engine, vm), json);
    g_string_append_c(json, '}');
    return g_string_free(json, FALSE);
}

static char *pin(Engine *engine, JsonObject *request, const char *vm, uint32_t delay_ms)
{
    Pin pin = { .delay_ms = delay_ms };
    char *answer = NULL;
    int64_t for_s;

    if (!get_number(request, "for-s", CONTROL_PIN_S_MAX, &for_s, &answer)) {
        return answer;
    }
    pin.until_ns = g_get_monotonic_time() * 1000 + for_s * NS_PER_S;
    engine_pin(engine, vm, &pin);
    if (delay_ms == POLICY_DELAY_NONE) {
        log_vm(G_LOG_LEVEL_MESSAGE, vm,
               "withdrawn by an operator for %" G_GINT64_FORMAT " s", for_s);
    } else {
        log_vm(G_LOG_LEVEL_MESSAGE, vm,
               "pinned at %u ms by an operator for %" G_GINT64_FORMAT " s", delay_ms,
               for_s);
    }
    return g_strdup("{\"return\":{}}");
}

static char *do_pin(Engine *engine, JsonObject *request, const char *vm)
{
    int64_t delay_ms;
    char *answer = NULL;

    if (!get_number(request, "delay-ms", POLICY_DELAY_MS_MAX, &delay_ms, &answer)) {
        return answer;
    }
    return pin(engine, request, vm, delay_ms);
}

static char *do_withdraw(Engine *engine, JsonObject *request, const char *vm)
{
    return pin(engine, request, vm, POLICY_DELAY_NONE);
}

static char *do_unpin(Engine *engine, JsonObject *request, const char *vm)
{
    (void)request;
    if (!engine_get_pin(engine, vm)) {
        return error_answer("'%s' is not pinned", vm);
    }
    engine_pin(engine, vm, NULL);
    log_vm(G_LOG_LEVEL_MESSAGE, vm, "unpinned by an operator");
    return g_strdup("{\"return\":{}}");
}

static const struct {
    const char *name;
    bool needs_vm, changes;
    char *(*run)(Engine *engine, JsonObject *request, const char *vm);
} commands[] = {
    { "status", false, false, do_status }, { "explain", true, false, do_explain },
    { "pin", true, true, do_pin },         { "withdraw", true, true, do_withdraw },
    { "unpin", true, true, do_unpin },
};

static char *run_request(Engine *engine, JsonObject *request, bool privileged)
{
    const char *name = get_text(request, "command");
    const char *vm = get_text(request, "vm");

    for (gsize i = 0; name && i < G_N_ELEMENTS(commands); i++) {
        if (!g_str_equal(name, commands[i].name)) {
            continue;
        }
        if (commands[i].changes && !privileged) {
            return error_answer("'%s' is for root and the daemon's own user", name);
        }
        if (commands[i].needs_vm && !vm) {
            return error_answer("'%s' needs a 'vm'", name);
        }
        if (commands[i].needs_vm && engine_find(engine, vm) < 0 &&
            !engine_get_pin(engine, vm)) {
            return error_answer("there is no VM '%s'", vm);
        }
        return commands[i].run(engine, request, vm);
    }
    return name ? error_answer("there is no command '%s'", name)
                : error_answer("a request needs a 'command'");
}

char *control_answer(Engine *engine, const char *line, gsize length, bool privileged)
{
    g_autoptr(JsonParser) parser = json_parser_new_immutable();

    if (!json_scan(line, length, NULL, 0) ||
        !json_parser_load_from_data(parser, line, length, NULL)) {
        return error_answer("the request is no JSON object");
    }
    return run_request(engine, json_node_get_object(json_parser_get_root(parser)),
                       privileged);
}

/* Connections */

static void client_free(gpointer opaque)
{
    Client *c = opaque;

    if (c->source) {
        g_source_remove(c->source);
    }
    if (c->time_out) {
        g_source_remove(c->time_out);
    }
    close(c->fd);
    g_string_free(c->in, TRUE);
    g_string_free(c->out, TRUE);
    g_free(c);
}

static void client_end(Client *c)
{
    g_ptr_array_remove_fast(c->control->clients, c);
}

static gboolean client_too_slow(gpointer opaque)
{
    Client *c = opaque;

    c->time_out = 0;
    client_end(c);
    return G_SOURCE_REMOVE;
}

static gboolean client_ready(gint fd, GIOCondition condition, gpointer opaque);

static void client_watch(Client *c)
{
    GIOCondition wanted = c->out->len ? G_IO_OUT : G_IO_IN;

    if (c->source) {
        g_source_remove(c->source);
    }
    if (c->time_out) {
        g_source_remove(c->time_out);
    }
    c->source = g_unix_fd_add_full(G_PRIORITY_LOW, c->fd, wanted | G_IO_HUP | G_IO_ERR,
                                   client_ready, c, NULL);
    c->time_out = g_timeout_add_seconds(CLIENT_IDLE_S, client_too_slow, c);
}

/* Answers are not read ahead: the next line waits until this one is out. */
static void client_next_line(Client *c)
{
    char *end = memchr(c->in->str, '\n', c->in->len);
    g_autofree char *answer = NULL;

    if (end) {
        answer = control_answer(c->control->engine, c->in->str, end - c->in->str,
                                c->privileged);
        g_string_erase(c->in, 0, end - c->in->str + 1);
    } else if (c->in->len >= REQUEST_MAX) {
        answer = error_answer("the request is longer than %d bytes", REQUEST_MAX);
        g_string_truncate(c->in, 0);
    } else {
        return;
    }
    g_string_append(c->out, answer);
    g_string_append_c(c->out, '\n');
}

static bool client_read(Client *c)
{
    char buffer[REQUEST_MAX];
    gssize got = recv(c->fd, buffer, sizeof(buffer) - MIN(c->in->len, sizeof(buffer) - 1),
                      MSG_DONTWAIT);

    if (got < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    g_string_append_len(c->in, buffer, got);
    return got > 0;
}

static bool client_write(Client *c)
{
    gssize sent = send(c->fd, c->out->str + c->out_done, c->out->len - c->out_done,
                       MSG_DONTWAIT | MSG_NOSIGNAL);

    if (sent < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    c->out_done += sent;
    if (c->out_done == c->out->len) {
        /* A status of a thousand VMs is not kept for the next "{}". */
        g_string_free(c->out, TRUE);
        c->out = g_string_new(NULL);
        c->out_done = 0;
    }
    return true;
}

static gboolean client_ready(gint fd, GIOCondition condition, gpointer opaque)
{
    Client *c = opaque;
    bool good = true;

    (void)fd;
    if (c->out->len) {
        good = client_write(c);
    } else if (condition & (G_IO_IN | G_IO_HUP | G_IO_ERR)) {
        good = client_read(c);
    }
    if (good && !c->out->len) {
        client_next_line(c);
    }
    /* This source is removed by either. */
    if (good) {
        client_watch(c);
    } else {
        client_end(c);
    }
    return G_SOURCE_CONTINUE;
}

static bool is_privileged(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == 0 || peer.uid == geteuid());
}

static gboolean control_ready(gint fd, GIOCondition condition, gpointer opaque)
{
    Control *control = opaque;
    Client *c;
    int client_fd;

    (void)condition;
    client_fd = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (client_fd < 0) {
        return G_SOURCE_CONTINUE;
    }
    if (control->clients->len >= CLIENTS_MAX) {
        static const char busy[] = "{\"error\":\"too many clients\"}\n";

        send(client_fd, busy, strlen(busy), MSG_DONTWAIT | MSG_NOSIGNAL);
        close(client_fd);
        return G_SOURCE_CONTINUE;
    }
    c = g_new0(Client, 1);
    c->control = control;
    c->fd = client_fd;
    c->privileged = is_privileged(client_fd);
    c->in = g_string_new(NULL);
    c->out = g_string_new(NULL);
    g_ptr_array_add(control->clients, c);
    client_watch(c);
    return G_SOURCE_CONTINUE;
}

static int control_listen(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd;

    if (g_strlcpy(address.sun_path, path, sizeof(address.sun_path)) >=
        sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    unlink(path);
    /* Its group may look; who may change anything is told by credentials. */
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        chmod(path, 0660) < 0 || listen(fd, CLIENTS_MAX) < 0) {
        int code = errno;

        close(fd);
        errno = code;
        return -1;
    }
    return fd;
}

Control *control_new(Engine *engine, const char *path, GError **errp)
{
    Control *control;
    int fd = control_listen(path);

    if (fd < 0) {
        g_set_error(errp, G_IO_ERROR, g_io_error_from_errno(errno),
                    "control socket %s: %s", path, g_strerror(errno));
        return NULL;
    }
    control = g_new0(Control, 1);
    control->engine = engine;
    control->path = g_strdup(path);
    control->fd = fd;
    control->clients = g_ptr_array_new_with_free_func(client_free);
    control->source = g_unix_fd_add(fd, G_IO_IN, control_ready, control);
    return control;
}

void control_free(Control *control)
{
    g_ptr_array_unref(control->clients);
    g_source_remove(control->source);
    close(control->fd);
    unlink(control->path);
    g_free(control->path);
    g_free(control);
}
