/*
 * Metrics in Prometheus' text format, for node_exporter's textfile collector
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <gio/gio.h>

#include "metrics.h"

#define PREFIX "balloon_steer_"
#define NS_PER_S 1e9

static void head(GString *text, const char *name, const char *type, const char *help)
{
    g_string_append_printf(text, "# HELP " PREFIX "%s %s\n# TYPE " PREFIX "%s %s\n", name,
                           help, name, type);
}

static void number(GString *text, const char *name, double value)
{
    char digits[G_ASCII_DTOSTR_BUF_SIZE];

    g_ascii_formatd(digits, sizeof(digits), "%.15g", value);
    g_string_append_printf(text, PREFIX "%s %s\n", name, digits);
}

static void gauge(GString *text, const char *name, const char *help, double value)
{
    head(text, name, "gauge", help);
    number(text, name, value);
}

static void counter(GString *text, const char *name, const char *help, double value)
{
    head(text, name, "counter", help);
    number(text, name, value);
}

/* As Prometheus wants a label's value: names may come from libvirt. */
static void label(GString *text, const char *value)
{
    for (; *value; value++) {
        if (*value == '\n') {
            g_string_append(text, "\\n");
            continue;
        }
        if (*value == '"' || *value == '\\') {
            g_string_append_c(text, '\\');
        }
        g_string_append_c(text, *value);
    }
}

static void labelled(GString *text, const char *name, const char *key, const char *value,
                     uint64_t count)
{
    g_string_append_printf(text, PREFIX "%s{%s=\"", name, key);
    label(text, value);
    g_string_append_printf(text, "\"} %" G_GUINT64_FORMAT "\n", count);
}

static void host_metrics(const Engine *engine, GString *text)
{
    const PolicyOutcome *o = &engine->outcome;

    head(text, "state", "gauge", "Whether the host is in this state.");
    for (int state = 0; state < POLICY_STATES; state++) {
        labelled(text, "state", "state", policy_state_name(state),
                 o->state == (PolicyState)state);
    }
    gauge(text, "usable_bytes",
          "Memory that the host can still use: available,"
          " less what is being fought over.",
          o->usable_bytes);
    gauge(text, "floor_bytes", "Memory that the host needs to itself.", o->floor_bytes);
    gauge(text, "pressure_some_ratio",
          "Share of time that some task waited for"
          " memory, of the last second or two.",
          engine->sample.psi_some_permille / 1000.0);
    gauge(text, "exhausted", "Whether no VM returns memory any more.", o->exhausted);
    gauge(text, "memory_readable", "Whether the host's memory could be read.",
          engine->sample.readable);
    gauge(text, "vms_steered", "VMs that follow the host's state.", o->steered);
    gauge(text, "uptime_seconds", "Time since the start.",
          (engine->tick_ns - engine->started_ns) / NS_PER_S);
}

static void counters(const Engine *engine, GString *text)
{
    const EngineCounters *c = &engine->counters;

    counter(text, "transitions_total", "Changes of the host's state.", c->transitions);
    counter(text, "ticks_total", "Rounds of measuring and deciding.", c->ticks);
    gauge(text, "tick_seconds_max", "The longest of them.", c->tick_ns_max / NS_PER_S);
    head(text, "commands_total", "counter", "Commands given to VMs.");
    labelled(text, "commands_total", "kind", "set", c->sets);
    labelled(text, "commands_total", "kind", "renew", c->renewals);
    labelled(text, "commands_total", "kind", "withdraw", c->withdrawals);
    labelled(text, "commands_total", "kind", "query", c->queries);
    head(text, "answers_total", "counter", "What became of set, renew and withdraw.");
    labelled(text, "answers_total", "answer", "ok", c->ok);
    labelled(text, "answers_total", "answer", "refused", c->refused);
    labelled(text, "answers_total", "answer", "lost", c->lost);
    labelled(text, "answers_total", "answer", "migrating", c->migrating);
}

static void whys(const Engine *engine, GString *text)
{
    unsigned int count[POLICY_WHYS] = { 0 };

    for (size_t i = 0; i < engine->vm_count; i++) {
        count[engine->states[i].why]++;
    }
    head(text, "vms", "gauge", "VMs by why they are asked for what they are.");
    for (int why = 0; why < POLICY_WHYS; why++) {
        labelled(text, "vms", "why", policy_why_name(why), count[why]);
    }
}

/* Milliseconds as seconds, the unit that Prometheus wants. */
static void delay(GString *text, const char *name, const char *vm, uint32_t ms)
{
    if (ms != POLICY_DELAY_NONE) {
        g_string_append_printf(text, PREFIX "%s{vm=\"", name);
        label(text, vm);
        g_string_append_printf(text, "\"} %u.%03u\n", ms / 1000, ms % 1000);
    }
}

static void vm_metrics(const Engine *engine, GString *text)
{
    head(text, "vm_asked_delay_seconds", "gauge",
         "Report delay that the VM is asked for; absent without a request.");
    for (size_t i = 0; i < engine->vm_count; i++) {
        delay(text, "vm_asked_delay_seconds", engine->vms[i].name,
              engine->states[i].asked_ms);
    }
    head(text, "vm_applied_delay_seconds", "gauge",
         "Report delay in force, as the guest says.");
    for (size_t i = 0; i < engine->vm_count; i++) {
        delay(text, "vm_applied_delay_seconds", engine->vms[i].name,
              engine->vms[i].known ? engine->vms[i].info.applied_ms : POLICY_DELAY_NONE);
    }
    head(text, "vm_discarded_bytes_total", "counter",
         "Bytes that the VM reported and the host discarded.");
    for (size_t i = 0; i < engine->vm_count; i++) {
        if (engine->vms[i].known) {
            labelled(text, "vm_discarded_bytes_total", "vm", engine->vms[i].name,
                     engine->vms[i].info.discarded_bytes);
        }
    }
    head(text, "vm_churned_bytes_total", "counter",
         "Of these, an estimate of what was soon taken back.");
    for (size_t i = 0; i < engine->vm_count; i++) {
        labelled(text, "vm_churned_bytes_total", "vm", engine->vms[i].name,
                 engine->states[i].churned_total_bytes);
    }
}

void metrics_format(const Engine *engine, GString *text)
{
    host_metrics(engine, text);
    counters(engine, text);
    whys(engine, text);
    vm_metrics(engine, text);
}

static bool write_all(int fd, const GString *text)
{
    gsize done = 0;

    while (done < text->len) {
        gssize wrote = write(fd, text->str + done, text->len - done);

        if (wrote < 0 && errno == EINTR) {
            continue;
        }
        if (wrote <= 0) {
            return false;
        }
        done += wrote;
    }
    return true;
}

bool metrics_write(const Engine *engine, const char *path, GError **errp)
{
    g_autofree char *other = g_strdup_printf("%s.tmp", path);
    g_autoptr(GString) text = g_string_new(NULL);
    bool good = false;
    int fd;

    metrics_format(engine, text);
    fd = open(other, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd >= 0) {
        /* Whoever collects it is another user, whatever our umask. */
        good = write_all(fd, text) && fchmod(fd, 0644) == 0;
        good = close(fd) == 0 && good && rename(other, path) == 0;
    }
    if (!good) {
        g_set_error(errp, G_IO_ERROR, g_io_error_from_errno(errno), "%s: %s", path,
                    g_strerror(errno));
    }
    return good;
}
