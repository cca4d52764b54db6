/*
 * Guests through libvirt: a module, loaded when the configuration asks for it
 *
 * A call to libvirt may block for half a minute, so none is made in the main
 * thread.  One thread has the connection: it opens it, again and again if need
 * be.  Worker threads send commands, at most one a domain at a time, so that a
 * domain that hangs takes one worker and no more than that.  libvirt's own
 * event loop is GLib's default context, hence the main thread: what it calls
 * must not call back into libvirtd.  Whatever any of them learn is a message to
 * the main thread, which alone has the table of guests.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <signal.h>
#include <string.h>
#include <gio/gio.h>
#include <gmodule.h>
#include <libvirt/libvirt.h>
#include <libvirt/libvirt-qemu.h>
#include <libvirt/virterror.h>

#include "guest.h"
#include "qmp-message.h"

/* As many domains may hang before others feel it. */
#define WORKERS_MAX 32

/* Between attempts to reach libvirtd; its restart takes about as long. */
#define RECONNECT_US (2 * G_USEC_PER_SEC)

/* How soon the end of a connection is seen. */
#define ALIVE_US (G_USEC_PER_SEC / 4)

/* At the end: threads that have not come back by then are left behind. */
#define STOP_US (2 * G_USEC_PER_SEC)

/* A name that libvirt takes, and a log. */
#define NAME_MAX_BYTES 200

typedef struct VirtBackend VirtBackend;

typedef struct VirtGuest {
    Guest guest;
    char uuid[VIR_UUID_STRING_BUFLEN];
    /* The main thread's: what waits for the worker to come back. */
    bool busy;
    bool set_waits, query_waits;
    GuestCommand set, query;
} VirtGuest;

struct VirtBackend {
    GuestBackend base;
    char *uri;
    GThread *thread;
    GThreadPool *workers;
    GAsyncQueue *messages;
    GHashTable *guests; /* by UUID; the main thread's */
    bool disconnected;  /* and said so; the main thread's */
    gint stop;
    gint closed; /* libvirt ended the connection */
    gint woken;  /* a dispatch is on its way */
    gint busy;   /* jobs that are not done, and the connection's thread */

    GMutex lock;
    virConnectPtr connection; /* under the lock; NULL: none */
};

/* To the main thread */

typedef enum MessageKind {
    MESSAGE_CONNECTED,
    MESSAGE_DISCONNECTED,
    MESSAGE_STARTED,
    MESSAGE_STOPPED,
    MESSAGE_APPLIED,
    MESSAGE_DONE,
} MessageKind;

typedef struct Message {
    MessageKind kind;
    char uuid[VIR_UUID_STRING_BUFLEN];
    char *text; /* a name, an error */
    uint32_t applied_ms, requested_ms;
    bool gone; /* DONE: the domain could not be spoken to */
    GuestAnswer answer;
} Message;

/* To a worker */
typedef struct Job {
    char uuid[VIR_UUID_STRING_BUFLEN];
    GuestCommand command;
} Job;

static gboolean deliver(gpointer opaque);

static void post(VirtBackend *b, Message *message)
{
    g_async_queue_push(b->messages, message);
    if (g_atomic_int_compare_and_exchange(&b->woken, 0, 1)) {
        g_idle_add_full(G_PRIORITY_DEFAULT, deliver, b, NULL);
    }
}

static Message *message_new(MessageKind kind, const char *uuid, const char *text)
{
    Message *message = g_new0(Message, 1);

    message->kind = kind;
    message->text = g_strdup(text);
    if (uuid) {
        g_strlcpy(message->uuid, uuid, sizeof(message->uuid));
    }
    return message;
}

static void message_free(Message *message)
{
    g_free(message->text);
    g_free(message);
}

/* Workers */

static virDomainPtr find_domain(VirtBackend *b, const char *uuid)
{
    virConnectPtr connection = NULL;
    virDomainPtr domain;

    g_mutex_lock(&b->lock);
    if (b->connection) {
        connection = b->connection;
        virConnectRef(connection);
    }
    g_mutex_unlock(&b->lock);
    if (!connection) {
        return NULL;
    }
    domain = virDomainLookupByUUIDString(connection, uuid);
    virConnectClose(connection);
    return domain;
}

/* QEMU's reply as libvirt hands it on; NULL if libvirt itself failed. */
static char *monitor(virDomainPtr domain, const char *command, const char *arguments,
                     QmpMessage *message)
{
    g_autofree char *line =
        g_strdup_printf("{\"execute\":\"%s\"%s%s}", command,
                        arguments ? ",\"arguments\":" : "", arguments ? arguments : "");
    char *reply = NULL;

    if (virDomainQemuMonitorCommand(domain, line, &reply,
                                    VIR_DOMAIN_QEMU_MONITOR_COMMAND_DEFAULT) < 0 ||
        !reply) {
        free(reply);
        return NULL;
    }
    qmp_message_scan(reply, strlen(reply), message);
    return reply;
}

static bool is_migrating(virDomainPtr domain)
{
    virDomainJobInfo info;

    return virDomainGetJobInfo(domain, &info) == 0 && info.type != VIR_DOMAIN_JOB_NONE &&
           info.type != VIR_DOMAIN_JOB_COMPLETED && info.type != VIR_DOMAIN_JOB_FAILED &&
           info.type != VIR_DOMAIN_JOB_CANCELLED;
}

static void read_memory(virDomainPtr domain, GuestAnswer *answer)
{
    virDomainMemoryStatStruct stats[VIR_DOMAIN_MEMORY_STAT_NR];
    uint64_t available = 0, unused = 0, updated = 0;
    int count = virDomainMemoryStats(domain, stats, G_N_ELEMENTS(stats), 0);

    for (int i = 0; i < count; i++) {
        uint64_t value = stats[i].val;

        switch (stats[i].tag) {
        case VIR_DOMAIN_MEMORY_STAT_RSS:
            answer->has_rss = !__builtin_mul_overflow(value, 1024, &answer->rss_bytes);
            break;
        case VIR_DOMAIN_MEMORY_STAT_AVAILABLE:
            available = value;
            break;
        case VIR_DOMAIN_MEMORY_STAT_UNUSED:
            unused = value;
            break;
        case VIR_DOMAIN_MEMORY_STAT_LAST_UPDATE:
            updated = value;
            break;
        default:
            break;
        }
    }
    answer->has_used =
        updated && unused && unused <= available &&
        !__builtin_mul_overflow(available - unused, 1024, &answer->used_bytes);
}

static void refuse(Message *done, const QmpMessage *reply)
{
    done->answer.verdict = GUEST_REFUSED;
    done->text = qmp_parse_error(reply->body, reply->body_length);
}

static void run_query(virDomainPtr domain, const Job *job, Message *done)
{
    g_autoptr(GError) error = NULL;
    QmpMessage reply;
    char *text = monitor(domain, "query-balloon-report-delay", NULL, &reply);

    if (!text) {
        done->gone = true;
        return;
    }
    if (reply.kind != QMP_RETURN) {
        refuse(done, &reply);
    } else if (!qmp_parse_info(reply.body, reply.body_length, &done->answer.info,
                               &error)) {
        done->answer.verdict = GUEST_REFUSED;
        done->text = g_strdup(error->message);
    } else {
        read_memory(domain, &done->answer);
        if (job->command.hints) {
            done->answer.has_migrating = true;
            done->answer.migrating = is_migrating(domain);
        }
    }
    free(text);
}

static void run_set(virDomainPtr domain, const Job *job, Message *done)
{
    g_autofree char *arguments = qmp_format_set(&job->command);
    QmpMessage reply;
    char *text;

    if (job->command.not_while_migrating && is_migrating(domain)) {
        done->answer.verdict = GUEST_MIGRATING;
        return;
    }
    text = monitor(domain, "balloon-set-report-delay", arguments, &reply);
    if (!text) {
        done->gone = true;
        return;
    }
    if (reply.kind != QMP_RETURN) {
        refuse(done, &reply);
    }
    free(text);
}

static void work(gpointer data, gpointer opaque)
{
    VirtBackend *b = opaque;
    g_autofree Job *job = data;
    Message *done = message_new(MESSAGE_DONE, job->uuid, NULL);
    virDomainPtr domain;

    done->answer.tag = job->command.tag;
    done->answer.op = job->command.op;
    domain = g_atomic_int_get(&b->stop) ? NULL : find_domain(b, job->uuid);
    if (!domain) {
        done->gone = true;
    } else if (job->command.op == GUEST_OP_QUERY) {
        run_query(domain, job, done);
    } else {
        run_set(domain, job, done);
    }
    if (done->gone) {
        const char *words = virGetLastErrorMessage();

        done->text = qmp_printable(words, strlen(words), 200);
    }
    if (domain) {
        /* Forgets the error. */
        virDomainFree(domain);
    }
    post(b, done);
    g_atomic_int_add(&b->busy, -1);
}

/* The thread that has the connection */

static void post_domain(VirtBackend *b, MessageKind kind, virDomainPtr domain)
{
    char uuid[VIR_UUID_STRING_BUFLEN];
    const char *name = virDomainGetName(domain);

    if (name && virDomainGetUUIDString(domain, uuid) == 0) {
        post(b, message_new(kind, uuid, name));
    }
}

static int on_lifecycle(virConnectPtr connection, virDomainPtr domain, int event,
                        int detail, void *opaque)
{
    (void)connection;
    (void)detail;
    switch (event) {
    case VIR_DOMAIN_EVENT_STARTED:
    case VIR_DOMAIN_EVENT_RESUMED:
        post_domain(opaque, MESSAGE_STARTED, domain);
        break;
    case VIR_DOMAIN_EVENT_STOPPED:
        post_domain(opaque, MESSAGE_STOPPED, domain);
        break;
    default:
        break;
    }
    return 0;
}

static void on_monitor_event(virConnectPtr connection, virDomainPtr domain,
                             const char *event, long long seconds,
                             unsigned int microseconds, const char *details, void *opaque)
{
    char uuid[VIR_UUID_STRING_BUFLEN];
    Message *message;

    (void)connection;
    (void)event;
    (void)seconds;
    (void)microseconds;
    if (!details || virDomainGetUUIDString(domain, uuid) < 0) {
        return;
    }
    message = message_new(MESSAGE_APPLIED, uuid, NULL);
    if (qmp_parse_applied(details, strlen(details), &message->applied_ms,
                          &message->requested_ms, NULL)) {
        post(opaque, message);
    } else {
        message_free(message);
    }
}

static void on_closed(virConnectPtr connection, int reason, void *opaque)
{
    (void)connection;
    (void)reason;
    g_atomic_int_set(&((VirtBackend *)opaque)->closed, 1);
}

static bool list_domains(VirtBackend *b, virConnectPtr connection)
{
    virDomainPtr *domains = NULL;
    int count =
        virConnectListAllDomains(connection, &domains, VIR_CONNECT_LIST_DOMAINS_ACTIVE);

    for (int i = 0; i < count; i++) {
        post_domain(b, MESSAGE_STARTED, domains[i]);
        virDomainFree(domains[i]);
    }
    free(domains);
    return count >= 0;
}

/* Registered before the list is taken: nothing is missed in between. */
static bool prepare(VirtBackend *b, virConnectPtr connection)
{
    if (virConnectSetKeepAlive(connection, 5, 3) < 0 ||
        virConnectRegisterCloseCallback(connection, on_closed, b, NULL) < 0 ||
        virConnectDomainEventRegisterAny(connection, NULL, VIR_DOMAIN_EVENT_ID_LIFECYCLE,
                                         VIR_DOMAIN_EVENT_CALLBACK(on_lifecycle), b,
                                         NULL) < 0) {
        return false;
    }
    /* Without these there are still the queries. */
    virConnectDomainQemuMonitorEventRegister(
        connection, NULL, "BALLOON_REPORT_DELAY_CHANGE", on_monitor_event, b, NULL, 0);
    return true;
}

static void serve(VirtBackend *b, virConnectPtr connection)
{
    g_atomic_int_set(&b->closed, 0);
    if (!prepare(b, connection)) {
        return;
    }
    g_mutex_lock(&b->lock);
    b->connection = connection;
    g_mutex_unlock(&b->lock);
    post(b, message_new(MESSAGE_CONNECTED, NULL, NULL));
    if (list_domains(b, connection)) {
        /* Nothing tells of the end if a worker's call was what met it. */
        while (!g_atomic_int_get(&b->closed) && virConnectIsAlive(connection) == 1 &&
               !g_atomic_int_get(&b->stop)) {
            g_usleep(ALIVE_US);
        }
    }
    g_mutex_lock(&b->lock);
    b->connection = NULL;
    g_mutex_unlock(&b->lock);
}

static void pause_before_retry(VirtBackend *b)
{
    int64_t end_us = g_get_monotonic_time() + RECONNECT_US;

    while (!g_atomic_int_get(&b->stop) && g_get_monotonic_time() < end_us) {
        g_usleep(50000);
    }
}

static gpointer connection_thread(gpointer opaque)
{
    VirtBackend *b = opaque;
    sigset_t all;

    /* Signals are the main thread's. */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    while (!g_atomic_int_get(&b->stop)) {
        virConnectPtr connection = virConnectOpen(b->uri);

        if (connection) {
            serve(b, connection);
            virConnectClose(connection);
        }
        if (!g_atomic_int_get(&b->stop)) {
            const char *words = virGetLastErrorCode() == VIR_ERR_OK
                                    ? "it ended"
                                    : virGetLastErrorMessage();
            g_autofree char *text = qmp_printable(words, strlen(words), 200);

            post(b, message_new(MESSAGE_DISCONNECTED, NULL, text));
            pause_before_retry(b);
        }
    }
    g_atomic_int_add(&b->busy, -1);
    return NULL;
}

/* The main thread */

static void start_job(VirtBackend *b, VirtGuest *g, const GuestCommand *command)
{
    Job *job = g_new0(Job, 1);

    g_strlcpy(job->uuid, g->uuid, sizeof(job->uuid));
    job->command = *command;
    g->busy = true;
    g_atomic_int_inc(&b->busy);
    g_thread_pool_push(b->workers, job, NULL);
}

/* A set goes before a query. */
static void start_next(VirtBackend *b, VirtGuest *g)
{
    if (g->set_waits) {
        g->set_waits = false;
        start_job(b, g, &g->set);
    } else if (g->query_waits) {
        g->query_waits = false;
        start_job(b, g, &g->query);
    }
}

static void set_why(VirtBackend *b, VirtGuest *g, bool up, const char *why)
{
    if (g->guest.up == up && g_strcmp0(g->guest.why, why) == 0) {
        return;
    }
    g->guest.up = up;
    g_free(g->guest.why);
    g->guest.why = g_strdup(why);
    g->set_waits = false;
    g->query_waits = false;
    b->base.listener->changed(b->base.listener->opaque, &g->guest);
}

static void guest_free(gpointer opaque)
{
    VirtGuest *g = opaque;

    g_free(g->guest.name);
    g_free(g->guest.why);
    g_free(g);
}

/* Printable, and never one that has a meaning in JSON or Prometheus. */
static char *clean_name(const char *name)
{
    char *clean = qmp_printable(name, strlen(name), NAME_MAX_BYTES);

    return g_strdelimit(clean, "\"\\", '?');
}

static void on_started(VirtBackend *b, const Message *message)
{
    VirtGuest *g = g_hash_table_lookup(b->guests, message->uuid);

    if (!g) {
        g = g_new0(VirtGuest, 1);
        g->guest.backend = &b->base;
        g->guest.name = clean_name(message->text);
        g->guest.why = g_strdup("not connected yet");
        g_strlcpy(g->uuid, message->uuid, sizeof(g->uuid));
        g_hash_table_insert(b->guests, g->uuid, g);
        b->base.listener->found(b->base.listener->opaque, &g->guest);
    }
    set_why(b, g, true, NULL);
}

static void on_stopped(VirtBackend *b, const char *uuid)
{
    VirtGuest *g = g_hash_table_lookup(b->guests, uuid);

    if (g) {
        b->base.listener->lost(b->base.listener->opaque, &g->guest);
        g_hash_table_remove(b->guests, uuid);
    }
}

/* The guests run on; what they were asked for goes on, too. */
static void on_disconnected(VirtBackend *b, const char *why)
{
    GHashTableIter iter;
    gpointer g;
    g_autofree char *text = g_strdup_printf("no connection to libvirt: %s", why);

    /* Tried every 2 s, said once. */
    if (b->disconnected) {
        return;
    }
    b->disconnected = true;
    b->base.listener->trouble(b->base.listener->opaque, NULL, text);
    g_hash_table_iter_init(&iter, b->guests);
    while (g_hash_table_iter_next(&iter, NULL, &g)) {
        set_why(b, g, false, "no connection to libvirt");
    }
}

static void on_done(VirtBackend *b, Message *message)
{
    VirtGuest *g = g_hash_table_lookup(b->guests, message->uuid);
    const GuestListener *listener = b->base.listener;

    if (!g) {
        return;
    }
    g->busy = false;
    message->answer.error = message->text;
    if (!g->guest.up) {
        return;
    }
    if (message->gone) {
        /* libvirt's own words; the domain's end is an event of its own. */
        message->answer.verdict = GUEST_LOST;
    }
    listener->answered(listener->opaque, &g->guest, &message->answer);
    if (!g->busy) {
        start_next(b, g);
    }
}

static void on_message(VirtBackend *b, Message *message)
{
    VirtGuest *g;

    switch (message->kind) {
    case MESSAGE_CONNECTED:
        if (b->disconnected) {
            b->disconnected = false;
            b->base.listener->trouble(b->base.listener->opaque, NULL,
                                      "connected to libvirt again");
        }
        break;
    case MESSAGE_DISCONNECTED:
        on_disconnected(b, message->text);
        break;
    case MESSAGE_STARTED:
        on_started(b, message);
        break;
    case MESSAGE_STOPPED:
        on_stopped(b, message->uuid);
        break;
    case MESSAGE_APPLIED:
        g = g_hash_table_lookup(b->guests, message->uuid);
        if (g) {
            b->base.listener->applied(b->base.listener->opaque, &g->guest,
                                      message->applied_ms, message->requested_ms);
        }
        break;
    case MESSAGE_DONE:
        on_done(b, message);
        break;
    }
}

static gboolean deliver(gpointer opaque)
{
    VirtBackend *b = opaque;
    Message *message;

    g_atomic_int_set(&b->woken, 0);
    while ((message = g_async_queue_try_pop(b->messages)) != NULL) {
        on_message(b, message);
        message_free(message);
    }
    return G_SOURCE_REMOVE;
}

static bool virt_send(Guest *guest, const GuestCommand *command)
{
    VirtGuest *g = (VirtGuest *)guest;
    VirtBackend *b = (VirtBackend *)guest->backend;

    /* The latest wins. */
    if (command->op == GUEST_OP_QUERY) {
        g->query = *command;
        g->query_waits = true;
    } else {
        g->set = *command;
        g->set_waits = true;
    }
    if (!g->busy) {
        start_next(b, g);
    }
    return true;
}

/* libvirtd has its own ends and time-outs. */
static void virt_tick(GuestBackend *base, int64_t now_us)
{
    (void)base;
    (void)now_us;
}

/* A call may hang for half a minute, or for as long as libvirtd does. */
static bool threads_are_done(VirtBackend *b)
{
    int64_t end_us = g_get_monotonic_time() + STOP_US;

    while (g_atomic_int_get(&b->busy) > 0) {
        if (g_get_monotonic_time() >= end_us) {
            return false;
        }
        g_usleep(5000);
    }
    return true;
}

static bool virt_stop(GuestBackend *base)
{
    VirtBackend *b = (VirtBackend *)base;
    GHashTableIter iter;
    gpointer g;
    Message *message;

    g_atomic_int_set(&b->stop, 1);
    g_hash_table_iter_init(&iter, b->guests);
    while (g_hash_table_iter_next(&iter, NULL, &g)) {
        base->listener->lost(base->listener->opaque, g);
    }
    g_hash_table_remove_all(b->guests);
    if (!threads_are_done(b)) {
        return false;
    }
    g_thread_join(b->thread);
    g_thread_pool_free(b->workers, FALSE, TRUE);
    while (g_idle_remove_by_data(b)) {
    }
    while ((message = g_async_queue_try_pop(b->messages)) != NULL) {
        message_free(message);
    }
    g_async_queue_unref(b->messages);
    g_hash_table_unref(b->guests);
    g_mutex_clear(&b->lock);
    g_free(b->uri);
    g_free(b);
    return true;
}

/* libvirt would write to stderr; we say what matters. */
static void on_virt_error(void *opaque, virErrorPtr error)
{
    (void)opaque;
    (void)error;
}

extern const GuestBackendClass steer_guest_backend;

static GuestBackend *virt_start(const char *where, const GuestListener *listener,
                                GError **errp)
{
    VirtBackend *b;

    virSetErrorFunc(NULL, on_virt_error);
    if (virInitialize() < 0 || virEventRegisterDefaultImpl() < 0) {
        g_set_error(errp, G_IO_ERROR, G_IO_ERROR_FAILED, "libvirt: %s",
                    virGetLastErrorMessage());
        return NULL;
    }
    b = g_new0(VirtBackend, 1);
    b->base.class = &steer_guest_backend;
    b->base.listener = listener;
    b->uri = g_strdup(where);
    b->messages = g_async_queue_new();
    b->guests = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, guest_free);
    g_mutex_init(&b->lock);
    b->workers = g_thread_pool_new(work, b, WORKERS_MAX, FALSE, NULL);
    b->busy = 1;
    b->thread = g_thread_new("libvirt", connection_thread, b);
    return &b->base;
}

G_MODULE_EXPORT const GuestBackendClass steer_guest_backend = {
    .abi = GUEST_BACKEND_ABI,
    .name = "libvirt",
    .start = virt_start,
    .send = virt_send,
    .tick = virt_tick,
    .stop = virt_stop,
};
