/*
 * balloon-steer run: starts and stops the engine, and what surrounds it
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>
#include <gio/gio.h>
#include <glib-unix.h>

#include "backends.h"
#include "control.h"
#include "daemon.h"
#include "engine.h"
#include "lock.h"
#include "log.h"
#include "metrics.h"
#include "notify.h"

/* At the end: long enough for an answer, short enough for an operator. */
#define STOP_US (3 * G_USEC_PER_SEC)

typedef struct Daemon {
    const DaemonOptions *options;
    GMainLoop *loop;
    Engine *engine;
    Control *control;
    int64_t metrics_us;
    int64_t stop_us;
    bool metrics_told;
    PolicyState shown;
    int64_t shown_us;
} Daemon;

static void write_metrics(Daemon *d, int64_t now_us)
{
    const Config *config = d->engine->config;
    g_autoptr(GError) error = NULL;

    if (!*config->metrics_file || now_us < d->metrics_us) {
        return;
    }
    d->metrics_us = now_us + config->metrics_interval_s * G_USEC_PER_SEC;
    if (!metrics_write(d->engine, config->metrics_file, &error) && !d->metrics_told) {
        log_warning("no metrics: %s", error->message);
    }
    d->metrics_told = error != NULL;
}

static void show_status(Daemon *d, int64_t now_us)
{
    const PolicyOutcome *o = &d->engine->outcome;
    g_autofree char *text = NULL;

    if (o->state == d->shown && now_us < d->shown_us) {
        return;
    }
    d->shown = o->state;
    d->shown_us = now_us + 60 * G_USEC_PER_SEC;
    text = g_strdup_printf("%s: %zu VMs, %zu steered", policy_state_name(o->state),
                           d->engine->vm_count, o->steered);
    notify_status(text);
}

/* A whole tick is over: the only place that keeps the watchdog quiet. */
static void on_ticked(void *opaque)
{
    Daemon *d = opaque;
    int64_t now_us = g_get_monotonic_time();

    notify_alive(now_us);
    show_status(d, now_us);
    write_metrics(d, now_us);
    if (d->stop_us && (engine_is_idle(d->engine) || now_us >= d->stop_us)) {
        if (!engine_is_idle(d->engine)) {
            log_warning("some VMs did not answer: "
                        "their requests end with their lease");
        }
        g_main_loop_quit(d->loop);
    }
}

static gboolean on_stop(gpointer opaque)
{
    Daemon *d = opaque;

    if (!d->stop_us) {
        log_info("stopping: withdrawing all requests");
        notify_stopping();
        d->stop_us = g_get_monotonic_time() + STOP_US;
        engine_stop(d->engine);
    }
    return G_SOURCE_CONTINUE;
}

static void log_warnings(const Config *config)
{
    for (guint i = 0; i < config->warnings->len; i++) {
        log_warning("%s", (const char *)config->warnings->pdata[i]);
    }
}

/* What is in use, and would take a restart. */
static void warn_of_restart(const Config *old, const Config *new)
{
    if (g_strcmp0(old->qmp_folder, new->qmp_folder) ||
        g_strcmp0(old->libvirt_uri, new->libvirt_uri) ||
        g_strcmp0(old->control_socket, new->control_socket) ||
        g_strcmp0(old->lock_file, new->lock_file) ||
        g_strcmp0(old->proc_folder, new->proc_folder) || old->psi != new->psi) {
        log_warning("qmp-folder, libvirt-uri, control-socket, lock-file, "
                    "proc-folder and psi change with a restart only");
    }
}

static gboolean on_reload(gpointer opaque)
{
    Daemon *d = opaque;
    g_autoptr(GError) error = NULL;
    Config *config;

    notify_reloading();
    config = config_load(d->options->config_file, &error);
    if (config) {
        log_warnings(config);
        warn_of_restart(d->engine->config, config);
        engine_reload(d->engine, config);
        d->metrics_us = 0;
        log_info("configuration reloaded");
    } else {
        log_error("the old configuration stays: %s", error->message);
    }
    notify_ready();
    return G_SOURCE_CONTINUE;
}

/* A descriptor for a VM's socket and one for its statm. */
static void raise_limits(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static bool start_backends(Engine *engine, GError **errp)
{
    const Config *config = engine->config;

    if (*config->libvirt_uri) {
        const GuestBackendClass *class = backends_load("libvirt", errp);

        if (!class || !engine_add_backend(engine, class, config->libvirt_uri, errp)) {
            return false;
        }
    }
    return !*config->qmp_folder ||
           engine_add_backend(engine, &qmp_backend_class, config->qmp_folder, errp);
}

static int daemon_loop(Daemon *d)
{
    const Config *config = d->engine->config;
    g_autoptr(GError) error = NULL;
    guint signals[] = {
        g_unix_signal_add(SIGTERM, on_stop, d),
        g_unix_signal_add(SIGINT, on_stop, d),
        g_unix_signal_add(SIGHUP, on_reload, d),
    };

    if (!start_backends(d->engine, &error)) {
        log_error("%s", error->message);
        return 1;
    }
    d->control = control_new(d->engine, config->control_socket, &error);
    if (!d->control) {
        log_error("%s", error->message);
        return 1;
    }
    d->loop = g_main_loop_new(NULL, FALSE);
    d->engine->ticked = on_ticked;
    d->engine->opaque = d;
    log_info("%s; PSI: %s%s",
             d->options->dry_run ? "dry run: nothing is sent" : "steering",
             probe_psi_text(d->engine->probe), *config->libvirt_uri ? "; libvirt" : "");
    notify_ready();
    g_main_loop_run(d->loop);
    g_main_loop_unref(d->loop);
    control_free(d->control);
    for (gsize i = 0; i < G_N_ELEMENTS(signals); i++) {
        g_source_remove(signals[i]);
    }
    return 0;
}

int daemon_run(const DaemonOptions *options)
{
    g_autoptr(GError) error = NULL;
    Daemon d = { .options = options };
    Config *config;
    int lock, status;

    log_init(options->verbose);
    signal(SIGPIPE, SIG_IGN);
    config = config_load(options->config_file, &error);
    if (!config) {
        log_error("%s", error->message);
        return 1;
    }
    log_warnings(config);
    if (!*config->qmp_folder && !*config->libvirt_uri) {
        log_error("neither qmp-folder nor libvirt-uri is set: "
                  "there is nothing to steer");
        config_free(config);
        return 1;
    }
    lock = lock_take(config->lock_file, &error);
    if (lock < 0) {
        log_error("%s", error->message);
        config_free(config);
        return 1;
    }
    raise_limits();
    d.engine = engine_new(config, options->dry_run);
    status = daemon_loop(&d);
    engine_free(d.engine);
    close(lock);
    return status;
}
