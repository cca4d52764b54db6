/*
 * record and simulate: what was seen, and what would have been done
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <signal.h>
#include <poll.h>
#include <unistd.h>

#include "client.h"
#include "commands.h"
#include "probe.h"
#include "replay.h"
#include "trace.h"

typedef struct Recorder {
    FILE *file;
    Connection *connection; /* or NULL: the host alone */
    Probe *probe;
    GHashTable *names; /* VMs of the last round */
    uint64_t some_events, full_events;
    bool begun;
} Recorder;

static uint64_t count(JsonObject *object, const char *name, uint64_t standard)
{
    return json_object_get_int_member_with_default(object, name, standard);
}

static bool yes(JsonObject *object, const char *name)
{
    return json_object_get_boolean_member_with_default(object, name, FALSE);
}

static const char *text(JsonObject *object, const char *name)
{
    return json_object_get_string_member_with_default(object, name, "");
}

static bool record_host(Recorder *r, int64_t time_ms, JsonObject *host)
{
    uint64_t some = count(host, "psi-some-events", 0);
    uint64_t full = count(host, "psi-full-events", 0);
    PolicySample sample = {
        .readable = yes(host, "readable"),
        .ram_bytes = count(host, "ram-bytes", 0),
        .available_bytes = count(host, "available-bytes", 0),
        .free_bytes = count(host, "free-bytes", 0),
        .high_watermark_bytes = count(host, "high-watermark-bytes", 0),
        .psi = yes(host, "psi-readable"),
        .psi_some_permille = count(host, "psi-some-permille", 0),
    };

    /* The daemon counts since its start; a trace, since the last row. */
    if (r->begun && some >= r->some_events && full >= r->full_events) {
        sample.psi_some_events = some - r->some_events;
        sample.psi_full_events = full - r->full_events;
    }
    r->begun = true;
    r->some_events = some;
    r->full_events = full;
    return trace_write_host(r->file, time_ms, &sample);
}

static bool record_vm(Recorder *r, int64_t time_ms, JsonObject *object)
{
    const char *migration = text(object, "migration");
    PolicyVmSample vm = {
        .connected = yes(object, "up"),
        .offered = yes(object, "offered"),
        .negotiated = yes(object, "negotiated"),
        .inhibited = yes(object, "inhibited"),
        .requested_ms = count(object, "requested-ms", POLICY_DELAY_NONE),
        .applied_ms = count(object, "applied-ms", POLICY_DELAY_NONE),
        .discarded_bytes = count(object, "discarded-bytes", 0),
        .host_bytes = count(object, "host-bytes", POLICY_BYTES_UNKNOWN),
        .guest_used_bytes = count(object, "guest-used-bytes", POLICY_BYTES_UNKNOWN),
        .migration = !strcmp(migration, "yes")  ? POLICY_MIGRATION_YES
                     : !strcmp(migration, "no") ? POLICY_MIGRATION_NO
                                                : POLICY_MIGRATION_UNKNOWN,
        .steer = yes(object, "steer"),
        .weight = count(object, "weight", POLICY_WEIGHT_DEFAULT),
        .min_delay_ms = count(object, "min-delay-ms", 0),
        .max_delay_ms = count(object, "max-delay-ms", 0),
    };

    return trace_write_vm(r->file, time_ms, text(object, "name"), &vm);
}

static bool record_vms(Recorder *r, int64_t time_ms, JsonArray *vms)
{
    g_autoptr(GHashTable) now =
        g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    GHashTableIter iter;
    gpointer name;
    bool good = true;

    for (guint i = 0; good && i < json_array_get_length(vms); i++) {
        JsonObject *vm = json_array_get_object_element(vms, i);

        g_hash_table_add(now, g_strdup(text(vm, "name")));
        good = record_vm(r, time_ms, vm);
    }
    g_hash_table_iter_init(&iter, r->names);
    while (good && g_hash_table_iter_next(&iter, &name, NULL)) {
        if (!g_hash_table_contains(now, name)) {
            good = trace_write_gone(r->file, time_ms, name);
        }
    }
    g_hash_table_unref(r->names);
    r->names = g_steal_pointer(&now);
    return good;
}

static bool record_round(Recorder *r, int64_t time_ms, GError **errp)
{
    g_autoptr(JsonNode) answer = NULL;
    PolicySample sample;
    JsonObject *status;
    bool good;

    if (!r->connection) {
        probe_read(r->probe, &sample, g_get_monotonic_time() * 1000);
        good = trace_write_host(r->file, time_ms, &sample);
    } else {
        answer = connection_ask(r->connection, "status", NULL, NULL, errp);
        if (!answer) {
            return false;
        }
        status = json_node_get_object(answer);
        good = record_host(r, time_ms, json_object_get_object_member(status, "host")) &&
               record_vms(r, time_ms, json_object_get_array_member(status, "vms"));
    }
    if (!good || fflush(r->file) != 0) {
        g_set_error(errp, G_IO_ERROR, g_io_error_from_errno(errno),
                    "the trace cannot be written: %s", g_strerror(errno));
        return false;
    }
    return true;
}

/* Until SIGINT or SIGTERM, or so many rounds. */
static int record_loop(Recorder *r, double every_s, int rounds)
{
    g_autoptr(GError) error = NULL;
    struct pollfd stop = { .events = POLLIN };
    int64_t start_us = g_get_monotonic_time();
    sigset_t signals;
    int done = 0;

    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    stop.fd = signalfd(-1, &signals, SFD_CLOEXEC);
    do {
        int64_t time_ms = (g_get_monotonic_time() - start_us) / 1000;

        if (!record_round(r, time_ms, &error)) {
            return command_fail("%s", error->message);
        }
        done++;
    } while ((!rounds || done < rounds) && poll(&stop, 1, every_s * 1000) == 0);
    close(stop.fd);
    fprintf(stderr, "balloon-steer: %d rounds recorded\n", done);
    return 0;
}

static void on_psi_event(void *opaque)
{
    (void)opaque;
}

static int record_to(FILE *file, double every_s, int rounds)
{
    g_autoptr(Config) config = command_config();
    g_autofree char *control = command_control();
    g_autoptr(GError) error = NULL;
    Recorder r = {
        .file = file,
        .names = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL),
    };
    int status = 1;

    if (!config || !control) {
        return 1;
    }
    r.connection = connection_new(control, &error);
    if (!r.connection && !connection_no_daemon(error)) {
        command_fail("%s", error->message);
    } else {
        if (!r.connection) {
            fprintf(stderr, "balloon-steer: no daemon is running: "
                            "the host alone is recorded\n");
            config->psi = CONFIG_PSI_TOTALS;
            r.probe = probe_new(config, on_psi_event, NULL);
        }
        trace_write_header(file);
        status = record_loop(&r, every_s, rounds);
    }
    g_clear_pointer(&r.connection, connection_free);
    g_clear_pointer(&r.probe, probe_free);
    g_hash_table_unref(r.names);
    return status;
}

int command_record(const Command *command, int argc, char **argv)
{
    double every_s = 1;
    int rounds = 0, status;
    const GOptionEntry entries[] = { { "every", 'e', 0, G_OPTION_ARG_DOUBLE, &every_s,
                                       "seconds between two rounds (1)", "S" },
                                     { "count", 'n', 0, G_OPTION_ARG_INT, &rounds,
                                       "end after so many rounds", "N" },
                                     G_OPTION_ENTRY_NULL };
    FILE *file;

    if (!command_parse(command, &argc, &argv, entries, 1, 1, &status)) {
        return status;
    }
    if (!(every_s >= 0.02 && every_s <= 3600)) {
        command_fail("--every must be from 0.02 to 3600 seconds");
        return STATUS_USAGE;
    }
    file = strcmp(argv[1], "-") ? fopen(argv[1], "we") : stdout;
    if (!file) {
        return command_fail("%s: %s", argv[1], g_strerror(errno));
    }
    status = record_to(file, every_s, rounds);
    if (file != stdout && fclose(file) != 0 && !status) {
        status = command_fail("%s: %s", argv[1], g_strerror(errno));
    }
    return status;
}

int command_simulate(const Command *command, int argc, char **argv)
{
    gboolean verbose = FALSE;
    const GOptionEntry entries[] = { { "verbose", 'v', 0, G_OPTION_ARG_NONE, &verbose,
                                       "every command, too", NULL },
                                     G_OPTION_ENTRY_NULL };
    g_autoptr(Config) config = NULL;
    g_autoptr(GError) error = NULL;
    ReplayResult result;
    FILE *file;
    int status;

    if (!command_parse(command, &argc, &argv, entries, 1, 1, &status)) {
        return status;
    }
    config = command_config();
    if (!config) {
        return 1;
    }
    file = fopen(argv[1], "re");
    if (!file) {
        return command_fail("%s: %s", argv[1], g_strerror(errno));
    }
    if (!replay_run(file, argv[1], &config->policy, stdout, verbose, &result, &error)) {
        status = command_fail("%s", error->message);
    } else {
        status = 0;
    }
    fclose(file);
    return status;
}
