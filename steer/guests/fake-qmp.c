/*
 * QEMUs that are not there: QMP servers that follow a script, for tests and
 * benchmarks
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fake-qmp.h"

#define NONE UINT32_MAX
#define INPUT_MAX 4096
#define BURST_BYTES (320 * 1024)
#define LATE_US (300 * 1000)

static const char greeting[] =
    "{\"QMP\": {\"version\": {\"qemu\": {\"micro\": 0, \"minor\": 0, "
    "\"major\": 10}, \"package\": \"\"}, \"capabilities\": [\"oob\"]}}\r\n";
static const char event[] =
    "{\"timestamp\": {\"seconds\": 1, \"microseconds\": 2}, \"event\": "
    "\"BALLOON_REPORT_DELAY_CHANGE\", \"data\": {\"applied-ms\": 77, "
    "\"requested-ms\": 78}}\r\n";

typedef struct FakeServer {
    FakeGuest guest;
    char *path;
    int listener;
    int fd;
    char input[INPUT_MAX];
    size_t input_length;
    bool shaken;
    int64_t greet_us;
    bool streams; /* OVERSIZED, FLOOD and BURST have begun */
    size_t burst_bytes;
} FakeServer;

struct FakeHost {
    char *folder;
    GPtrArray *servers;
    /* Removed ones: an event for them may be on its way. */
    GPtrArray *buried;
    int epoll_fd;
    int wake_fd;
    bool stop;
    GMutex lock;
    GThread *thread;
};

static bool put(FakeServer *s, const char *text, size_t length)
{
    size_t piece = s->guest.script == FAKE_BYTEWISE ? 1 : length;

    /* Whatever does not fit is lost, which a hostile server does not mind. */
    for (size_t at = 0; at < length && s->fd >= 0; at += piece) {
        gssize sent =
            send(s->fd, text + at, MIN(piece, length - at), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0) {
            return false;
        }
    }
    return s->fd >= 0;
}

/* False: not all of it. */
static bool say(FakeServer *s, const char *text)
{
    return put(s, text, strlen(text));
}

static void reply(FakeServer *s, uint64_t id, const char *body)
{
    g_autofree char *text =
        g_strdup_printf("{\"return\": %s, \"id\": %" G_GUINT64_FORMAT "}\r\n", body, id);

    say(s, text);
}

static void reply_error(FakeServer *s, uint64_t id, const char *class, const char *words)
{
    g_autofree char *text =
        g_strdup_printf("{\"id\": %" G_GUINT64_FORMAT ", \"error\": {\"class\": \"%s\", "
                        "\"desc\": \"%s\"}}\r\n",
                        id, class, words);

    say(s, text);
}

static void hang_up(FakeServer *s)
{
    if (s->fd >= 0) {
        close(s->fd);
        s->fd = -1;
    }
    s->input_length = 0;
    s->shaken = false;
    s->streams = false;
    s->greet_us = 0;
}

/* The number behind @name in a command that our own client has written. */
static bool number_of(const char *line, const char *name, uint64_t *value)
{
    const char *at = strstr(line, name);

    if (!at) {
        return false;
    }
    *value = g_ascii_strtoull(at + strlen(name), NULL, 10);
    return true;
}

static void lease_ends(FakeServer *s, int64_t now_us)
{
    FakeGuest *g = &s->guest;

    if (g->lease_end_us && now_us >= g->lease_end_us) {
        g->lease_end_us = 0;
        g->lease_ms = 0;
        g->requested_ms = NONE;
        g->applied_ms = 2000;
        g->lease_ends++;
    }
}

static void do_set(FakeServer *s, const char *line)
{
    FakeGuest *g = &s->guest;
    uint64_t delay_ms, lease_ms = 0;

    g->set_us = g_get_monotonic_time();
    if (!number_of(line, "\"delay-ms\":", &delay_ms)) {
        g->withdrawals++;
        g->requested_ms = NONE;
        g->applied_ms = 2000;
        g->lease_end_us = 0;
        g->lease_ms = 0;
        return;
    }
    number_of(line, "\"lease-ms\":", &lease_ms);
    g->sets++;
    g->requested_ms = delay_ms;
    g->applied_ms = delay_ms;
    g->lease_ms = lease_ms;
    g->lease_end_us = lease_ms ? g->set_us + lease_ms * 1000 : 0;
}

static char *info_of(const FakeServer *s)
{
    const FakeGuest *g = &s->guest;
    GString *text = g_string_new("{");
    uint32_t applied_ms = g->other_writer_ms != NONE ? g->other_writer_ms : g->applied_ms;

    if (g->requested_ms != NONE) {
        g_string_append_printf(text, "\"requested-ms\": %u, ", g->requested_ms);
    }
    if (applied_ms != NONE) {
        g_string_append_printf(text, "\"applied-ms\": %u, ", applied_ms);
    }
    if (g->lease_ms) {
        g_string_append_printf(text, "\"lease-left-ms\": %u, ", g->lease_ms);
    }
    g_string_append_printf(
        text,
        "\"offered\": %s, \"negotiated\": true, "
        "\"inhibited\": false, \"reports\": 12, \"reported-bytes\": %" G_GUINT64_FORMAT
        ", \"discarded-bytes\": %" G_GUINT64_FORMAT "}",
        s->guest.script == FAKE_REFUSES ? "false" : "true", g->discarded_bytes,
        g->discarded_bytes);
    return g_string_free(text, FALSE);
}

static void do_command(FakeServer *s, const char *line, uint64_t id)
{
    g_autofree char *info = NULL;

    if (strstr(line, "\"balloon-set-report-delay\"")) {
        if (s->guest.script == FAKE_REFUSES) {
            reply_error(s, id, "GenericError",
                        "The balloon does not offer its "
                        "report delay: start it with 'report-delay=on'");
        } else {
            do_set(s, line);
            reply(s, id, "{}");
        }
    } else if (strstr(line, "\"query-balloon-report-delay\"")) {
        s->guest.queries++;
        /* It has memory to return, or the policy would let it rest. */
        s->guest.discarded_bytes += 64 << 20;
        info = info_of(s);
        reply(s, id, info);
    } else if (strstr(line, "\"query-migrate\"")) {
        reply(s, id,
              s->guest.script == FAKE_MIGRATES ? "{\"status\": \"active\"}" : "{}");
    } else if (strstr(line, "\"qom-list\"")) {
        reply(s, id,
              "[{\"name\": \"type\", \"type\": \"string\"}, {\"name\": "
              "\"balloon0\", \"type\": \"child<virtio-balloon-pci>\"}]");
    } else if (strstr(line, "\"qom-get\"")) {
        reply(s, id,
              "{\"stats\": {\"stat-total-memory\": 1073741824, "
              "\"stat-free-memory\": 805306368}, \"last-update\": 1700000000}");
    } else {
        reply_error(s, id, "CommandNotFound", "The command is not found");
    }
}

/* True: the script has dealt with the command. */
static bool be_hostile(FakeServer *s, const char *line, uint64_t id)
{
    g_autofree char *deep = NULL;
    char text[64];

    switch (s->guest.script) {
    case FAKE_OLD:
        if (strstr(line, "report-delay")) {
            reply_error(s, id, "CommandNotFound", "The command is not found");
            return true;
        }
        return false;
    case FAKE_STUCK:
        return true;
    case FAKE_OVERSIZED:
    case FAKE_FLOOD:
        s->streams = true;
        return s->guest.script == FAKE_OVERSIZED;
    case FAKE_BURST:
        s->streams = s->burst_bytes < BURST_BYTES;
        return false;
    case FAKE_DEEP:
        deep = g_malloc(4001);
        memset(deep, '[', 2000);
        memset(deep + 2000, ']', 2000);
        deep[4000] = '\0';
        reply(s, id, deep);
        return true;
    case FAKE_CLOSES:
        g_snprintf(text, sizeof(text), "{\"return\": {}, \"id\": %u", (unsigned int)id);
        put(s, text, strlen(text) / 2);
        hang_up(s);
        return true;
    case FAKE_OUT_OF_ORDER:
        for (uint64_t earlier = 1; earlier < id; earlier++) {
            reply(s, earlier, "{\"offered\": false}");
        }
        return false;
    case FAKE_WRONG_ID:
        reply(s, id + 1000, "{}");
        return true;
    case FAKE_NO_ID:
        say(s, "{\"return\": {}}\r\n");
        return true;
    case FAKE_LIES:
        reply(s, id,
              "{\"offered\": 1, \"negotiated\": null, \"inhibited\": [],"
              " \"applied-ms\": 99999999999999, \"discarded-bytes\": -1}");
        return true;
    default:
        return false;
    }
}

static void do_line(FakeServer *s, const char *line)
{
    uint64_t id = 0;

    number_of(line, "\"id\":", &id);
    if (strstr(line, "\"qmp_capabilities\"")) {
        if (s->guest.script != FAKE_NO_HANDSHAKE) {
            reply(s, id, "{}");
            s->shaken = true;
        }
    } else if (!be_hostile(s, line, id)) {
        do_command(s, line, id);
    }
}

static void do_input(FakeServer *s)
{
    gssize got;
    char *end;

    if (s->guest.script == FAKE_DEAF && s->shaken) {
        return;
    }
    got = recv(s->fd, s->input + s->input_length, sizeof(s->input) - 1 - s->input_length,
               MSG_DONTWAIT);
    if (got <= 0) {
        if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
            hang_up(s);
        }
        return;
    }
    s->input_length += got;
    s->input[s->input_length] = '\0';
    while (s->fd >= 0 && (end = strchr(s->input, '\n')) != NULL) {
        size_t used = end - s->input + 1;

        *end = '\0';
        do_line(s, s->input);
        if (s->fd >= 0) {
            memmove(s->input, s->input + used, s->input_length - used + 1);
            s->input_length -= used;
        }
    }
}

static void greet(FakeServer *s)
{
    static const char garbage[] = "\0\xff\x80QMP\x01{{{\"\n\n\xfe\n";

    switch (s->guest.script) {
    case FAKE_NO_GREETING:
        break;
    case FAKE_GARBAGE:
        put(s, garbage, sizeof(garbage) - 1);
        break;
    case FAKE_NOT_QMP:
        say(s, "{\"hello\": [1, 2, 3]}\n");
        break;
    default:
        say(s, greeting);
    }
}

/* One client at a time, as QEMU does it. */
static void do_accept(FakeHost *host, FakeServer *s)
{
    struct epoll_event poll = { .events = EPOLLIN, .data.ptr = s };

    hang_up(s);
    if (s->listener < 0) {
        return;
    }
    s->fd = accept4(s->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (s->fd < 0) {
        return;
    }
    s->guest.connections++;
    if (s->guest.script == FAKE_DEAF) {
        poll.events |= EPOLLET;
    }
    epoll_ctl(host->epoll_fd, EPOLL_CTL_ADD, s->fd, &poll);
    if (s->guest.script == FAKE_LATE_GREETING) {
        s->greet_us = g_get_monotonic_time() + LATE_US;
    } else {
        greet(s);
    }
}

static void do_time(FakeServer *s, int64_t now_us)
{
    lease_ends(s, now_us);
    if (s->greet_us && now_us >= s->greet_us) {
        s->greet_us = 0;
        greet(s);
    }
    if (s->streams && s->guest.script == FAKE_OVERSIZED) {
        char chunk[4096];

        memset(chunk, 'x', sizeof(chunk));
        put(s, chunk, sizeof(chunk));
    } else if (s->streams) {
        for (int i = 0; i < 50 && s->streams; i++) {
            if (say(s, event) && s->guest.script == FAKE_BURST) {
                s->burst_bytes += strlen(event);
                s->streams = s->burst_bytes < BURST_BYTES;
            }
        }
    }
}

static void host_round(FakeHost *host, const struct epoll_event *events, int count)
{
    int64_t now_us = g_get_monotonic_time();

    for (int i = 0; i < count; i++) {
        /* A listener is told by its lowest bit. */
        uintptr_t tag = (uintptr_t)events[i].data.ptr;
        FakeServer *s = (FakeServer *)(tag & ~(uintptr_t)1);

        if (!tag) {
            uint64_t woken;

            (void)!read(host->wake_fd, &woken, sizeof(woken));
        } else if (tag & 1) {
            do_accept(host, s);
        } else if (s->fd >= 0) {
            do_input(s);
        }
    }
    for (guint i = 0; i < host->servers->len; i++) {
        do_time(host->servers->pdata[i], now_us);
    }
}

static gpointer host_thread(gpointer opaque)
{
    FakeHost *host = opaque;
    struct epoll_event events[256];
    int count;

    for (;;) {
        count = epoll_wait(host->epoll_fd, events, G_N_ELEMENTS(events), 5);
        g_mutex_lock(&host->lock);
        if (host->stop) {
            g_mutex_unlock(&host->lock);
            return NULL;
        }
        host_round(host, events, MAX(count, 0));
        g_mutex_unlock(&host->lock);
    }
}

FakeHost *fake_host_new(const char *folder)
{
    FakeHost *host = g_new0(FakeHost, 1);
    struct epoll_event poll = { .events = EPOLLIN };

    host->folder = g_strdup(folder);
    host->servers = g_ptr_array_new();
    host->buried = g_ptr_array_new();
    host->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    host->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    g_assert_cmpint(host->epoll_fd, >=, 0);
    epoll_ctl(host->epoll_fd, EPOLL_CTL_ADD, host->wake_fd, &poll);
    g_mutex_init(&host->lock);
    host->thread = g_thread_new("fake-qmp", host_thread, host);
    return host;
}

static void server_close(FakeServer *s)
{
    unlink(s->path);
    hang_up(s);
    if (s->listener >= 0) {
        close(s->listener);
        s->listener = -1;
    }
}

static void server_free(gpointer opaque)
{
    FakeServer *s = opaque;

    server_close(s);
    g_free(s->path);
    g_free(s->guest.name);
    g_free(s);
}

static void host_wake(FakeHost *host)
{
    uint64_t one = 1;

    g_assert_cmpint(write(host->wake_fd, &one, sizeof(one)), ==, sizeof(one));
}

void fake_host_free(FakeHost *host)
{
    g_mutex_lock(&host->lock);
    host->stop = true;
    g_mutex_unlock(&host->lock);
    host_wake(host);
    g_thread_join(host->thread);
    g_ptr_array_set_free_func(host->servers, server_free);
    g_ptr_array_unref(host->servers);
    g_ptr_array_set_free_func(host->buried, server_free);
    g_ptr_array_unref(host->buried);
    g_mutex_clear(&host->lock);
    close(host->epoll_fd);
    close(host->wake_fd);
    g_free(host->folder);
    g_free(host);
}

void fake_host_add(FakeHost *host, const char *name, FakeScript script)
{
    FakeServer *s = g_new0(FakeServer, 1);
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    struct epoll_event poll = {
        .events = EPOLLIN,
        .data.ptr = (void *)((uintptr_t)s | 1),
    };

    s->guest.name = g_strdup(name);
    s->guest.script = script;
    s->guest.requested_ms = NONE;
    s->guest.applied_ms = NONE;
    s->guest.other_writer_ms = NONE;
    s->guest.discarded_bytes = 1 << 30;
    s->fd = -1;
    s->path = g_strdup_printf("%s/%s.sock", host->folder, name);
    g_assert_cmpint(g_strlcpy(address.sun_path, s->path, sizeof(address.sun_path)), <,
                    sizeof(address.sun_path));
    s->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    g_assert_cmpint(bind(s->listener, (struct sockaddr *)&address, sizeof(address)), ==,
                    0);
    g_assert_cmpint(listen(s->listener, 1), ==, 0);

    g_mutex_lock(&host->lock);
    g_ptr_array_add(host->servers, s);
    epoll_ctl(host->epoll_fd, EPOLL_CTL_ADD, s->listener, &poll);
    g_mutex_unlock(&host->lock);
}

static FakeServer *host_find(FakeHost *host, const char *name)
{
    for (guint i = 0; i < host->servers->len; i++) {
        FakeServer *s = host->servers->pdata[i];

        if (g_str_equal(s->guest.name, name)) {
            return s;
        }
    }
    g_error("no fake guest is called %s", name);
}

void fake_host_remove(FakeHost *host, const char *name)
{
    FakeServer *s;

    g_mutex_lock(&host->lock);
    s = host_find(host, name);
    server_close(s);
    g_ptr_array_remove(host->servers, s);
    g_ptr_array_add(host->buried, s);
    g_mutex_unlock(&host->lock);
}

FakeGuest fake_host_look(FakeHost *host, const char *name)
{
    FakeGuest guest;

    g_mutex_lock(&host->lock);
    guest = host_find(host, name)->guest;
    g_mutex_unlock(&host->lock);
    return guest;
}

FakeGuest fake_host_look_at(FakeHost *host, unsigned int index)
{
    FakeGuest guest;

    g_mutex_lock(&host->lock);
    g_assert_cmpuint(index, <, host->servers->len);
    guest = ((FakeServer *)host->servers->pdata[index])->guest;
    g_mutex_unlock(&host->lock);
    return guest;
}

void fake_host_write(FakeHost *host, const char *name, uint32_t applied_ms)
{
    g_mutex_lock(&host->lock);
    host_find(host, name)->guest.other_writer_ms = applied_ms;
    g_mutex_unlock(&host->lock);
}

const char *fake_script_name(FakeScript script)
{
    static const char *const names[] = {
        [FAKE_GOOD] = "good",
        [FAKE_OLD] = "old",
        [FAKE_REFUSES] = "refuses",
        [FAKE_MIGRATES] = "migrates",
        [FAKE_BYTEWISE] = "bytewise",
        [FAKE_LATE_GREETING] = "late-greeting",
        [FAKE_NO_GREETING] = "no-greeting",
        [FAKE_GARBAGE] = "garbage",
        [FAKE_NOT_QMP] = "not-qmp",
        [FAKE_NO_HANDSHAKE] = "no-handshake",
        [FAKE_STUCK] = "stuck",
        [FAKE_DEAF] = "deaf",
        [FAKE_OVERSIZED] = "oversized",
        [FAKE_DEEP] = "deep",
        [FAKE_CLOSES] = "closes",
        [FAKE_OUT_OF_ORDER] = "out-of-order",
        [FAKE_WRONG_ID] = "wrong-id",
        [FAKE_NO_ID] = "no-id",
        [FAKE_FLOOD] = "flood",
        [FAKE_BURST] = "burst",
        [FAKE_LIES] = "lies",
    };

    return names[script];
}
