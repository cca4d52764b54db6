/*
 * Commands to VMs while no daemon runs
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <stdio.h>

#include "backends.h"
#include "direct.h"

/* Together, for all VMs: systemd waits for this at a stop. */
#define WAIT_US (5 * G_USEC_PER_SEC)

typedef struct Direct {
    const char *name;
    const GuestCommand *command;
    unsigned int done, failed;
    /* Guests whose answer is still to come. */
    GHashTable *waiting;
} Direct;

static void on_found(void *opaque, Guest *guest)
{
    Direct *d = opaque;

    if (!d->name || g_str_equal(d->name, guest->name)) {
        g_hash_table_add(d->waiting, guest);
    }
}

static void give_up(Direct *d, Guest *guest, const char *why)
{
    if (g_hash_table_remove(d->waiting, guest)) {
        fprintf(stderr, "balloon-steer: %s: %s\n", guest->name, why);
        d->failed++;
    }
}

static void on_changed(void *opaque, Guest *guest)
{
    Direct *d = opaque;

    if (g_hash_table_contains(d->waiting, guest) && guest->up &&
        !guest_send(guest, d->command)) {
        give_up(d, guest, "the command could not be sent");
    }
}

static void on_lost(void *opaque, Guest *guest)
{
    give_up(opaque, guest, guest->why ? guest->why : "no answer");
}

static void on_answered(void *opaque, Guest *guest, const GuestAnswer *answer)
{
    Direct *d = opaque;

    if (answer->verdict != GUEST_OK) {
        give_up(d, guest, answer->error);
    } else if (g_hash_table_remove(d->waiting, guest)) {
        d->done++;
    }
}

static void on_applied(void *opaque, Guest *guest, uint32_t applied_ms,
                       uint32_t requested_ms)
{
    (void)opaque;
    (void)guest;
    (void)applied_ms;
    (void)requested_ms;
}

static void on_trouble(void *opaque, const Guest *guest, const char *text)
{
    (void)opaque;
    if (!guest) {
        fprintf(stderr, "balloon-steer: %s\n", text);
    }
}

static void start(GPtrArray *backends, const GuestBackendClass *class, const char *where,
                  const GuestListener *listener)
{
    g_autoptr(GError) error = NULL;
    GuestBackend *backend = NULL;

    if (class) {
        backend = class->start(where, listener, &error);
    }
    if (backend) {
        g_ptr_array_add(backends, backend);
    } else if (error) {
        fprintf(stderr, "balloon-steer: %s\n", error->message);
    }
}

static gboolean wake(gpointer opaque)
{
    (void)opaque;
    return G_SOURCE_CONTINUE;
}

/* Libvirt's guests are found a moment after the start; how many, nobody says. */
#define FIND_US G_USEC_PER_SEC

static void wait_for_answers(Direct *d, GPtrArray *backends, bool find)
{
    int64_t start_us = g_get_monotonic_time(), now_us = start_us;
    guint timer = g_timeout_add(10, wake, NULL);

    while (now_us < start_us + WAIT_US &&
           (g_hash_table_size(d->waiting) ||
            (find && !(d->name && d->done) && now_us < start_us + FIND_US))) {
        g_main_context_iteration(NULL, TRUE);
        now_us = g_get_monotonic_time();
        for (guint i = 0; i < backends->len; i++) {
            GuestBackend *backend = backends->pdata[i];

            backend->class->tick(backend, now_us);
        }
    }
    g_source_remove(timer);
}

unsigned int direct_command(const Config *config, const char *name,
                            const GuestCommand *command, unsigned int *failed)
{
    Direct d = {
        .name = name,
        .command = command,
        .waiting = g_hash_table_new(NULL, NULL),
    };
    GuestListener listener = {
        .opaque = &d,
        .found = on_found,
        .changed = on_changed,
        .lost = on_lost,
        .answered = on_answered,
        .applied = on_applied,
        .trouble = on_trouble,
    };
    g_autoptr(GPtrArray) backends = g_ptr_array_new();
    g_autoptr(GError) error = NULL;
    bool libvirt = *config->libvirt_uri;

    if (libvirt) {
        start(backends, backends_load("libvirt", &error), config->libvirt_uri, &listener);
        if (error) {
            fprintf(stderr, "balloon-steer: %s\n", error->message);
        }
    }
    if (*config->qmp_folder) {
        start(backends, &qmp_backend_class, config->qmp_folder, &listener);
    }
    wait_for_answers(&d, backends, libvirt);
    if (!backends_stop(backends)) {
        fprintf(stderr, "balloon-steer: a call to libvirt hangs: "
                        "what it was for may not be done\n");
        d.failed++;
    }
    g_hash_table_unref(d.waiting);
    *failed = d.failed;
    return d.done;
}
