/*
 * Guests by QMP sockets in a folder
 *
 * Every socket in the folder is a guest, named as its file less ".sock" or
 * ".qmp".  All connections are in one epoll set, which GLib sees as one
 * descriptor: a thousand sources of its own would each be walked in every
 * round.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <gio/gio.h>
#include <glib-unix.h>

#include "qmp-client.h"
#include "qmp-message.h"

/* inotify may lose events, or have no watch left. */
#define RESCAN_US (30 * G_USEC_PER_SEC)

/* Sockets that a folder may have; more are a mistake, or an attack. */
#define GUESTS_MAX 16384

typedef struct QmpBackend {
    GuestBackend base;
    char *folder;
    int folder_fd;
    int epoll_fd;
    guint source;
    GFileMonitor *monitor;
    /* Keyed by name. */
    GHashTable *clients;
    int64_t rescan_us;
    bool folder_told;
    bool full_told;
} QmpBackend;

static QmpBackend *backend_of(GuestBackend *base)
{
    return (QmpBackend *)base;
}

static void backend_trouble(QmpBackend *b, const char *text)
{
    b->base.listener->trouble(b->base.listener->opaque, NULL, text);
}

static gboolean backend_ready(gint fd, GIOCondition condition, gpointer opaque)
{
    struct epoll_event events[64];
    int64_t now_us = g_get_monotonic_time();
    int count;

    (void)condition;
    (void)opaque;
    count = epoll_wait(fd, events, G_N_ELEMENTS(events), 0);
    for (int i = 0; i < count; i++) {
        qmp_client_ready(events[i].data.ptr, events[i].events, now_us);
    }
    return G_SOURCE_CONTINUE;
}

/* The guest's name: the file's, less what only says what it is. */
static char *name_of(const char *file)
{
    static const char *const endings[] = { ".sock", ".socket", ".qmp" };

    for (gsize i = 0; i < G_N_ELEMENTS(endings); i++) {
        if (g_str_has_suffix(file, endings[i])) {
            return g_strndup(file, strlen(file) - strlen(endings[i]));
        }
    }
    return g_strdup(file);
}

/* A name that may be printed, typed and put into a path. */
static bool is_name(const char *name)
{
    if (*name == '.' || !*name) {
        return false;
    }
    for (const char *c = name; *c; c++) {
        if (!g_ascii_isgraph(*c) || *c == '"' || *c == '\\') {
            return false;
        }
    }
    return true;
}

static bool is_socket(QmpBackend *b, const char *name)
{
    struct stat status;

    return fstatat(b->folder_fd, name, &status, 0) == 0 && S_ISSOCK(status.st_mode);
}

static void client_trouble_twice(QmpBackend *b, const QmpClient *c, const char *file)
{
    g_autofree char *text = g_strdup_printf(
        "%s and %s are two sockets of one name: the second is ignored", c->file, file);

    b->base.listener->trouble(b->base.listener->opaque, &c->guest, text);
}

/* The client of a socket's file, or NULL. */
static QmpClient *backend_find(QmpBackend *b, const char *file)
{
    g_autofree char *name = name_of(file);
    QmpClient *c = g_hash_table_lookup(b->clients, name);

    return c && g_str_equal(c->file, file) ? c : NULL;
}

static void backend_add(QmpBackend *b, const char *file, int64_t now_us)
{
    g_autofree char *name = name_of(file);
    QmpClient *c = g_hash_table_lookup(b->clients, name);

    if (!is_name(name)) {
        return;
    }
    if (c && !g_str_equal(c->file, file)) {
        client_trouble_twice(b, c, file);
        return;
    }
    if (c) {
        /* A new socket of the same name: no reason to wait any longer. */
        c->file_gone = false;
        if (c->state == QMP_OFF) {
            c->deadline_us = now_us;
        }
        return;
    }
    if (g_hash_table_size(b->clients) >= GUESTS_MAX) {
        if (!b->full_told) {
            b->full_told = true;
            backend_trouble(b, "the folder has too many sockets: "
                               "the rest is ignored");
        }
        return;
    }
    c = qmp_client_new(&b->base, name, file, b->epoll_fd);
    g_hash_table_insert(b->clients, c->guest.name, c);
    b->base.listener->found(b->base.listener->opaque, &c->guest);
    qmp_client_connect(c, b->folder_fd, now_us);
}

static void backend_remove(QmpBackend *b, QmpClient *c)
{
    b->base.listener->lost(b->base.listener->opaque, &c->guest);
    g_hash_table_remove(b->clients, c->guest.name);
}

static bool backend_open(QmpBackend *b)
{
    if (b->folder_fd >= 0) {
        close(b->folder_fd);
    }
    b->folder_fd = open(b->folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (b->folder_fd < 0 && !b->folder_told) {
        g_autofree char *text = g_strdup_printf(
            "%s: %s; it is looked for again every 30 s", b->folder, g_strerror(errno));

        backend_trouble(b, text);
    }
    b->folder_told = b->folder_fd < 0;
    return b->folder_fd >= 0;
}

/* See what is there, whatever inotify has told. */
static void backend_scan(QmpBackend *b, int64_t now_us)
{
    g_autoptr(GDir) folder = NULL;
    GHashTableIter iter;
    const char *file;
    gpointer value;

    b->rescan_us = now_us + RESCAN_US;
    if (!backend_open(b)) {
        return;
    }
    folder = g_dir_open(b->folder, 0, NULL);
    while (folder && (file = g_dir_read_name(folder)) != NULL) {
        if (is_name(file) && is_socket(b, file) && !backend_find(b, file)) {
            backend_add(b, file, now_us);
        }
    }
    g_hash_table_iter_init(&iter, b->clients);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        QmpClient *c = value;

        c->file_gone = !is_socket(b, c->file);
    }
}

static void backend_changed(GFileMonitor *monitor, GFile *file, GFile *other,
                            GFileMonitorEvent event, gpointer opaque)
{
    QmpBackend *b = opaque;
    g_autofree char *name = g_file_get_basename(file);
    QmpClient *c;

    (void)monitor;
    (void)other;
    if (b->folder_fd < 0 || !is_name(name)) {
        return;
    }
    if (event == G_FILE_MONITOR_EVENT_CREATED && is_socket(b, name)) {
        backend_add(b, name, g_get_monotonic_time());
    } else if (event == G_FILE_MONITOR_EVENT_DELETED) {
        /* QEMU removes its socket before it closes: tick() sees the end. */
        c = backend_find(b, name);
        if (c) {
            c->file_gone = !is_socket(b, name);
        }
    }
}

static void qmp_backend_tick(GuestBackend *base, int64_t now_us)
{
    QmpBackend *b = backend_of(base);
    g_autoptr(GPtrArray) gone = g_ptr_array_new();
    GHashTableIter iter;
    gpointer value;

    if (now_us >= b->rescan_us) {
        backend_scan(b, now_us);
    }
    g_hash_table_iter_init(&iter, b->clients);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        QmpClient *c = value;

        qmp_client_tick(c, now_us);
        if (c->state == QMP_OFF && c->file_gone) {
            g_ptr_array_add(gone, c);
        } else if (qmp_client_wants_connect(c, now_us)) {
            qmp_client_connect(c, b->folder_fd, now_us);
        }
    }
    for (guint i = 0; i < gone->len; i++) {
        backend_remove(b, gone->pdata[i]);
    }
}

static bool qmp_backend_stop(GuestBackend *base)
{
    QmpBackend *b = backend_of(base);
    GHashTableIter iter;
    gpointer value;

    if (b->monitor) {
        g_file_monitor_cancel(b->monitor);
        g_clear_object(&b->monitor);
    }
    g_hash_table_iter_init(&iter, b->clients);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        b->base.listener->lost(b->base.listener->opaque, value);
    }
    g_hash_table_unref(b->clients);
    g_source_remove(b->source);
    close(b->epoll_fd);
    if (b->folder_fd >= 0) {
        close(b->folder_fd);
    }
    g_free(b->folder);
    g_free(b);
    return true;
}

static GuestBackend *qmp_backend_start(const char *where, const GuestListener *listener,
                                       GError **errp)
{
    g_autoptr(GFile) folder = g_file_new_for_path(where);
    QmpBackend *b;
    int epoll_fd;

    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_fd < 0) {
        g_set_error(errp, G_IO_ERROR, g_io_error_from_errno(errno), "epoll_create1: %s",
                    g_strerror(errno));
        return NULL;
    }
    b = g_new0(QmpBackend, 1);
    b->base.class = &qmp_backend_class;
    b->base.listener = listener;
    b->folder = g_strdup(where);
    b->folder_fd = -1;
    b->epoll_fd = epoll_fd;
    b->clients = g_hash_table_new_full(g_str_hash, g_str_equal, NULL,
                                       (GDestroyNotify)qmp_client_free);
    b->source = g_unix_fd_add(epoll_fd, G_IO_IN, backend_ready, b);
    /* Without a watch there is still the scan. */
    b->monitor = g_file_monitor_directory(folder, G_FILE_MONITOR_NONE, NULL, NULL);
    if (b->monitor) {
        g_signal_connect(b->monitor, "changed", G_CALLBACK(backend_changed), b);
    }
    backend_scan(b, g_get_monotonic_time());
    return &b->base;
}

static bool qmp_backend_send(Guest *guest, const GuestCommand *command)
{
    /* The guest is its client's first member. */
    return qmp_client_send((QmpClient *)guest, command);
}

const GuestBackendClass qmp_backend_class = {
    .abi = GUEST_BACKEND_ABI,
    .name = "qmp",
    .start = qmp_backend_start,
    .send = qmp_backend_send,
    .tick = qmp_backend_tick,
    .stop = qmp_backend_stop,
};
