/*
 * One QMP connection, to a QEMU that is not trusted
 *
 * Whatever a peer does ends in an answer, in silence, or in qmp_client_close()
 * with a reason and a later attempt.  Nothing that it sends can make us keep
 * more than a line, recurse, or read faster than its budget.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "qmp-client.h"
#include "qmp-message.h"

/* Our commands are short, and there are two of them at most under way. */
#define UNSENT_MAX 4096

/* Of one read; the next guest's turn comes after it. */
#define READ_MAX (16 * 1024)

static bool budget_take(QmpBudget *budget, int64_t amount, int64_t per_second,
                        int64_t burst, int64_t now_us)
{
    int64_t passed_us = MIN(now_us - budget->at_us, 60 * G_USEC_PER_SEC);
    int64_t earned = passed_us * per_second / G_USEC_PER_SEC;

    if (earned > 0) {
        budget->left = MIN(budget->left + earned, burst);
        budget->at_us = now_us;
    }
    if (budget->left <= 0) {
        return false;
    }
    budget->left -= amount;
    return true;
}

QmpClient *qmp_client_new(GuestBackend *backend, const char *name, const char *file,
                          int epoll_fd)
{
    QmpClient *c = g_new0(QmpClient, 1);

    c->guest.backend = backend;
    c->guest.name = g_strdup(name);
    c->guest.why = g_strdup("not connected yet");
    c->file = g_strdup(file);
    c->fd = -1;
    c->epoll_fd = epoll_fd;
    c->retry_us = QMP_RETRY_MIN_US;
    return c;
}

static void client_why(QmpClient *c, bool up, const char *why)
{
    c->guest.up = up;
    g_free(c->guest.why);
    c->guest.why = g_strdup(why);
    c->guest.backend->listener->changed(c->guest.backend->listener->opaque, &c->guest);
}

static void client_trouble(QmpClient *c, const char *text)
{
    c->guest.backend->listener->trouble(c->guest.backend->listener->opaque, &c->guest,
                                        text);
}

static void client_drop(QmpClient *c)
{
    if (c->fd >= 0) {
        /* Closing takes it out of the epoll set. */
        close(c->fd);
        c->fd = -1;
    }
    c->state = QMP_OFF;
    c->set.step = QMP_STEP_NONE;
    c->query.step = QMP_STEP_NONE;
    c->throttled = false;
    c->balloon_sought = false;
    g_clear_pointer(&c->balloon, g_free);
    g_clear_pointer(&c->partial, g_byte_array_unref);
    if (c->unsent) {
        g_string_free(c->unsent, TRUE);
        c->unsent = NULL;
    }
}

static void qmp_client_close(QmpClient *c, const char *why, int64_t now_us)
{
    /* A connection that was good for a while has earned a quick attempt. */
    if (c->state == QMP_READY && now_us - c->up_us >= QMP_RETRY_MAX_US) {
        c->retry_us = QMP_RETRY_MIN_US;
    }
    client_drop(c);
    c->deadline_us = now_us + c->retry_us;
    c->retry_us = MIN(c->retry_us * 2, QMP_RETRY_MAX_US);
    client_why(c, false, why);
}

/* The peer broke the protocol: say it, too. */
static void client_violation(QmpClient *c, const char *why, int64_t now_us)
{
    client_trouble(c, why);
    qmp_client_close(c, why, now_us);
}

void qmp_client_free(QmpClient *c)
{
    client_drop(c);
    g_free(c->guest.name);
    g_free(c->guest.why);
    g_free(c->file);
    g_free(c);
}

static bool client_poll(QmpClient *c, int operation)
{
    struct epoll_event event = {
        .events = EPOLLIN | (c->unsent ? EPOLLOUT : 0),
        .data.ptr = c,
    };

    return epoll_ctl(c->epoll_fd, operation, c->fd, &event) == 0;
}

static void client_peer(QmpClient *c)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    c->guest.pid = 0;
    if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) {
        c->guest.pid = peer.pid;
    }
}

void qmp_client_connect(QmpClient *c, int folder_fd, int64_t now_us)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int length;

    /* A path through the folder's descriptor has a known, short beginning. */
    length = g_snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s",
                        folder_fd, c->file);
    if ((size_t)length >= sizeof(address.sun_path)) {
        qmp_client_close(c, "the socket's name is too long", now_us);
        return;
    }
    c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
        qmp_client_close(
            c, errno == EAGAIN ? "another client is connected" : g_strerror(errno),
            now_us);
        return;
    }
    if (!client_poll(c, EPOLL_CTL_ADD)) {
        qmp_client_close(c, g_strerror(errno), now_us);
        return;
    }
    client_peer(c);
    c->bytes =
        (QmpBudget){ c->flooded ? QMP_BYTES_BURST_AGAIN : QMP_BYTES_BURST, now_us };
    c->events = (QmpBudget){ QMP_EVENTS_BURST, now_us };
    c->flood_us = 0;
    c->state = QMP_WAITING;
    c->deadline_us = now_us + QMP_GREETING_US;
    client_why(c, false, "no greeting yet: is another client connected?");
}

/* False: the connection is lost; the next read will see that. */
static bool client_flush(QmpClient *c)
{
    gssize sent;

    sent = send(c->fd, c->unsent->str, c->unsent->len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    g_string_erase(c->unsent, 0, sent);
    return true;
}

static void client_write(QmpClient *c, const char *text)
{
    bool was_waiting = c->unsent != NULL;

    if (!was_waiting) {
        c->unsent = g_string_new(NULL);
    }
    /* A peer that reads nothing gets nothing more; its answers stay out. */
    if (c->unsent->len < UNSENT_MAX) {
        g_string_append(c->unsent, text);
    }
    client_flush(c);
    if (!c->unsent->len) {
        g_string_free(c->unsent, TRUE);
        c->unsent = NULL;
    }
    if (was_waiting != (c->unsent != NULL) && !c->throttled) {
        client_poll(c, EPOLL_CTL_MOD);
    }
}

static uint64_t client_execute(QmpClient *c, const char *command, const char *arguments)
{
    g_autofree char *text = qmp_format(command, ++c->last_id, arguments);

    client_write(c, text);
    return c->last_id;
}

/* Operations */

static void operation_start(QmpClient *c, QmpOperation *o, QmpStep step)
{
    g_autofree char *arguments = NULL;
    const char *command = NULL;

    switch (step) {
    case QMP_STEP_ASK_MIGRATION:
    case QMP_STEP_MIGRATION:
        command = "query-migrate";
        break;
    case QMP_STEP_SET:
        command = "balloon-set-report-delay";
        arguments = qmp_format_set(&o->command);
        break;
    case QMP_STEP_INFO:
        command = "query-balloon-report-delay";
        break;
    case QMP_STEP_FIND:
    case QMP_STEP_FIND_ANON:
        command = "qom-list";
        arguments =
            g_strdup_printf("{\"path\":\"/machine/%s\"}",
                            step == QMP_STEP_FIND ? "peripheral" : "peripheral-anon");
        break;
    case QMP_STEP_STATS:
        command = "qom-get";
        arguments = g_strdup_printf("{\"path\":\"%s\",\"property\":"
                                    "\"guest-stats\"}",
                                    c->balloon);
        break;
    case QMP_STEP_NONE:
        g_assert_not_reached();
    }
    o->step = step;
    o->id = client_execute(c, command, arguments);
}

static void operation_end(QmpClient *c, QmpOperation *o, GuestVerdict verdict,
                          const char *error)
{
    /* Its memory is free for the next command before the listener hears. */
    GuestAnswer answer = o->answer;

    o->step = QMP_STEP_NONE;
    answer.tag = o->command.tag;
    answer.op = o->command.op;
    answer.verdict = verdict;
    answer.error = error;
    c->guest.backend->listener->answered(c->guest.backend->listener->opaque, &c->guest,
                                         &answer);
}

static void operation_next_hint(QmpClient *c, QmpOperation *o)
{
    if (!c->balloon && !c->balloon_sought) {
        operation_start(c, o, QMP_STEP_FIND);
    } else if (c->balloon) {
        operation_start(c, o, QMP_STEP_STATS);
    } else {
        operation_start(c, o, QMP_STEP_MIGRATION);
    }
}

static void operation_found(QmpClient *c, QmpOperation *o, const QmpMessage *message)
{
    g_autofree char *name = NULL;

    if (message->kind == QMP_RETURN) {
        name = qmp_parse_balloon(message->body, message->body_length);
    }
    if (name) {
        c->balloon = g_strdup_printf("/machine/peripheral%s/%s",
                                     o->step == QMP_STEP_FIND ? "" : "-anon", name);
    }
    if (!name && o->step == QMP_STEP_FIND) {
        operation_start(c, o, QMP_STEP_FIND_ANON);
        return;
    }
    c->balloon_sought = true;
    operation_next_hint(c, o);
}

static void operation_migration(QmpClient *c, QmpOperation *o, const QmpMessage *message)
{
    bool migrating = false;

    /* A QEMU that does not know the command cannot migrate. */
    if (message->kind == QMP_RETURN &&
        !qmp_parse_migrating(message->body, message->body_length, &migrating, NULL)) {
        migrating = true;
    }
    if (o->step == QMP_STEP_MIGRATION) {
        o->answer.has_migrating = true;
        o->answer.migrating = migrating;
        operation_end(c, o, GUEST_OK, NULL);
    } else if (migrating) {
        operation_end(c, o, GUEST_MIGRATING, NULL);
    } else {
        operation_start(c, o, QMP_STEP_SET);
    }
}

static void operation_info(QmpClient *c, QmpOperation *o, const QmpMessage *message)
{
    g_autoptr(GError) error = NULL;

    if (!qmp_parse_info(message->body, message->body_length, &o->answer.info, &error)) {
        g_autofree char *text =
            g_strdup_printf("query-balloon-report-delay: %s", error->message);

        operation_end(c, o, GUEST_REFUSED, text);
    } else if (o->command.hints) {
        operation_next_hint(c, o);
    } else {
        operation_end(c, o, GUEST_OK, NULL);
    }
}

/* RETURN or ERROR for the step that is under way. */
static void operation_reply(QmpClient *c, QmpOperation *o, const QmpMessage *message)
{
    g_autofree char *error = NULL;

    switch (o->step) {
    case QMP_STEP_FIND:
    case QMP_STEP_FIND_ANON:
        operation_found(c, o, message);
        return;
    case QMP_STEP_ASK_MIGRATION:
    case QMP_STEP_MIGRATION:
        operation_migration(c, o, message);
        return;
    case QMP_STEP_STATS:
        o->answer.has_used =
            message->kind == QMP_RETURN &&
            qmp_parse_used(message->body, message->body_length, &o->answer.used_bytes);
        operation_start(c, o, QMP_STEP_MIGRATION);
        return;
    case QMP_STEP_SET:
    case QMP_STEP_INFO:
        break;
    case QMP_STEP_NONE:
        g_assert_not_reached();
    }
    if (message->kind == QMP_ERROR) {
        error = qmp_parse_error(message->body, message->body_length);
        operation_end(c, o, GUEST_REFUSED, error);
    } else if (o->step == QMP_STEP_INFO) {
        operation_info(c, o, message);
    } else {
        operation_end(c, o, GUEST_OK, NULL);
    }
}

bool qmp_client_send(QmpClient *c, const GuestCommand *command)
{
    QmpOperation *o = command->op == GUEST_OP_QUERY ? &c->query : &c->set;

    if (c->state != QMP_READY) {
        return false;
    }
    memset(o, 0, sizeof(*o));
    o->command = *command;
    operation_start(c, o,
                    command->op == GUEST_OP_QUERY  ? QMP_STEP_INFO
                    : command->not_while_migrating ? QMP_STEP_ASK_MIGRATION
                                                   : QMP_STEP_SET);
    return true;
}

/* What comes in */

static void client_event(QmpClient *c, const QmpMessage *message, int64_t now_us)
{
    const GuestListener *listener = c->guest.backend->listener;
    uint32_t applied_ms, requested_ms;

    /* An event more or less is of no account: the next query tells. */
    if (!qmp_message_is_event(message, "BALLOON_REPORT_DELAY_CHANGE") ||
        !budget_take(&c->events, 1, QMP_EVENTS_PER_S, QMP_EVENTS_BURST, now_us)) {
        return;
    }
    if (qmp_parse_applied(message->body, message->body_length, &applied_ms, &requested_ms,
                          NULL)) {
        listener->applied(listener->opaque, &c->guest, applied_ms, requested_ms);
    }
}

static void client_reply(QmpClient *c, const QmpMessage *message, int64_t now_us)
{
    if (!message->has_id || message->id > c->last_id) {
        client_violation(c, "answered what it was not asked", now_us);
    } else if (c->set.step && message->id == c->set.id) {
        operation_reply(c, &c->set, message);
    } else if (c->query.step && message->id == c->query.id) {
        operation_reply(c, &c->query, message);
    }
    /* Else it answers what we have given up. */
}

static void client_handshake(QmpClient *c, const QmpMessage *message, int64_t now_us)
{
    if (message->kind == QMP_EVENT) {
        return;
    }
    if (c->state == QMP_WAITING) {
        if (message->kind != QMP_GREETING) {
            client_violation(c, "sent no QMP greeting", now_us);
            return;
        }
        c->state = QMP_HANDSHAKE;
        c->deadline_us = now_us + QMP_HANDSHAKE_US;
        client_execute(c, "qmp_capabilities", NULL);
    } else if (message->kind != QMP_RETURN || !message->has_id ||
               message->id != c->last_id) {
        client_violation(c, "refused the QMP handshake", now_us);
    } else {
        c->state = QMP_READY;
        c->up_us = now_us;
        client_why(c, true, NULL);
    }
}

/* One line, without its newline. */
static void client_line(QmpClient *c, const char *line, gsize length, int64_t now_us)
{
    QmpMessage message;

    qmp_message_scan(line, length, &message);
    if (message.kind == QMP_BAD) {
        client_violation(c, "sent something that is no QMP", now_us);
    } else if (c->state != QMP_READY) {
        client_handshake(c, &message, now_us);
    } else if (message.kind == QMP_EVENT) {
        client_event(c, &message, now_us);
    } else if (message.kind == QMP_GREETING) {
        client_violation(c, "sent a second greeting", now_us);
    } else {
        client_reply(c, &message, now_us);
    }
}

/* The rest of a line, or of more lines.  May close the connection. */
static void client_bytes(QmpClient *c, const char *bytes, gsize length, int64_t now_us)
{
    const char *newline;

    while (c->fd >= 0 && length && (newline = memchr(bytes, '\n', length)) != NULL) {
        gsize part = newline - bytes;

        if (c->partial) {
            g_autoptr(GByteArray) line = g_steal_pointer(&c->partial);

            g_byte_array_append(line, (const guint8 *)bytes, part);
            client_line(c, (const char *)line->data, line->len, now_us);
        } else if (part > 1 || (part == 1 && *bytes != '\r')) {
            client_line(c, bytes, part, now_us);
        }
        bytes = newline + 1;
        length -= part + 1;
    }
    if (c->fd < 0 || !length) {
        return;
    }
    if (!c->partial) {
        c->partial = g_byte_array_new();
    }
    if (c->partial->len + length > QMP_LINE_MAX) {
        client_violation(c, "sent a line that is too long", now_us);
        return;
    }
    g_byte_array_append(c->partial, (const guint8 *)bytes, length);
}

/* No credit for the time that it was up: that is what it floods with. */
static void client_cut_off(QmpClient *c, int64_t now_us)
{
    c->flooded = true;
    c->up_us = now_us;
    c->retry_us = MAX(c->retry_us, QMP_FLOOD_RETRY_MIN_US);
    client_violation(c, "floods us with more than 16 KiB a second: cut off", now_us);
}

static void client_throttle(QmpClient *c, int64_t now_us)
{
    if (c->flooded) {
        client_cut_off(c, now_us);
        return;
    }
    c->throttled = true;
    epoll_ctl(c->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
    if (!c->flood_us) {
        c->flood_us = now_us;
        client_trouble(c, "sends more than 16 KiB a second: read slowly");
    }
}

static void client_read(QmpClient *c, int64_t now_us)
{
    char buffer[READ_MAX];
    gssize got;

    got = recv(c->fd, buffer, sizeof(buffer), MSG_DONTWAIT);
    if (got < 0) {
        if (errno != EAGAIN && errno != EINTR) {
            qmp_client_close(c, g_strerror(errno), now_us);
        }
        return;
    }
    if (got == 0) {
        qmp_client_close(c, "QEMU closed the connection", now_us);
        return;
    }
    budget_take(&c->bytes, got, QMP_BYTES_PER_S, QMP_BYTES_BURST, now_us);
    client_bytes(c, buffer, got, now_us);
    if (c->fd >= 0 && c->bytes.left <= 0) {
        client_throttle(c, now_us);
    }
}

void qmp_client_ready(QmpClient *c, uint32_t events, int64_t now_us)
{
    /* Closed meanwhile, by what another guest's answer led to. */
    if (c->fd < 0) {
        return;
    }
    if ((events & EPOLLOUT) && c->unsent) {
        client_write(c, "");
    }
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        client_read(c, now_us);
    }
}

/* It is over when more is earned than a tick, 1 s at most, can leave unread. */
static void client_tick_flood(QmpClient *c, int64_t now_us)
{
    bool some;

    if (!c->flood_us && !c->throttled && !c->flooded) {
        return;
    }
    some = budget_take(&c->bytes, 0, QMP_BYTES_PER_S, QMP_BYTES_BURST, now_us);
    if (c->flood_us && c->bytes.left > 2 * QMP_BYTES_PER_S) {
        c->flood_us = 0;
    }
    if (c->flood_us && now_us - c->flood_us >= QMP_FLOOD_US) {
        client_cut_off(c, now_us);
    } else if (c->throttled && some) {
        c->throttled = false;
        client_poll(c, EPOLL_CTL_ADD);
    } else if (c->flooded && c->state == QMP_READY &&
               now_us - c->up_us >= QMP_RETRY_MAX_US) {
        c->flooded = false;
    }
}

void qmp_client_tick(QmpClient *c, int64_t now_us)
{
    if ((c->state == QMP_WAITING || c->state == QMP_HANDSHAKE) &&
        now_us >= c->deadline_us) {
        qmp_client_close(c,
                         c->state == QMP_WAITING
                             ? "no greeting: is another client connected?"
                             : "no answer to the QMP handshake",
                         now_us);
    }
    if (c->fd >= 0) {
        client_tick_flood(c, now_us);
    }
}
