/*
 * The host's memory as the policy wants it: what /proc says, and PSI
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <string.h>
#include <unistd.h>
#include <glib-unix.h>

#include "log.h"
#include "meminfo.h"
#include "probe.h"
#include "proc-file.h"
#include "psi.h"

/* Of the window; see STEERING.md's threshold, docs/operating.rst. */
#define PSI_SOME_PERCENT 10
#define PSI_FULL_PERCENT 5

/* min_free_kbytes changes with a sysctl, or when memory is plugged. */
#define WATERMARK_NS (60 * NS_PER_S)
#define NS_PER_S INT64_C(1000000000)

/* zoneinfo has some lines for each CPU of each zone. */
#define ZONEINFO_MAX (4 * 1024 * 1024)

typedef struct PsiSource {
    Probe *probe;
    guint source;
    int fd;
    uint32_t *events;
} PsiSource;

struct Probe {
    ProcFile meminfo, zoneinfo, pressure;
    uint64_t page_bytes;
    uint64_t high_bytes;
    int64_t high_read_ns;
    bool meminfo_told, zoneinfo_told, psi_told;

    void (*psi_event)(void *opaque);
    void *opaque;
    ConfigPsi psi;
    PsiSource some, full;
    uint32_t some_events, full_events;
    unsigned int window_ms;
    /* Totals of one to two seconds ago, and of up to one second ago. */
    PsiTotals old, middle;
    int64_t old_ns, middle_ns;
    PsiTotals last;
    char psi_text[64];
};

/* Say it when it begins and when it ends, not at each tick. */
static void tell(bool *told, GError *error, const char *what)
{
    if (error && !*told) {
        log_warning("%s cannot be used: %s", what, error->message);
    } else if (!error && *told) {
        log_info("%s can be used again", what);
    }
    *told = error != NULL;
}

/* Triggers */

static gboolean psi_ready(gint fd, GIOCondition condition, gpointer opaque)
{
    PsiSource *s = opaque;

    (void)fd;
    if (condition & (G_IO_ERR | G_IO_HUP | G_IO_NVAL)) {
        log_warning("a PSI trigger is gone: the totals are used");
        s->source = 0;
        s->probe->psi = CONFIG_PSI_TOTALS;
        return G_SOURCE_REMOVE;
    }
    (*s->events)++;
    s->probe->psi_event(s->probe->opaque);
    return G_SOURCE_CONTINUE;
}

static bool psi_open(Probe *probe, PsiSource *s, PsiKind kind, unsigned int percent,
                     GError **errp)
{
    GSource *source;

    s->fd =
        psi_trigger_open(probe->pressure.path, kind, percent, &probe->window_ms, errp);
    if (s->fd < 0) {
        return false;
    }
    /*
     * poll() consumes the event, and GLib forgets what a source of lower
     * priority had when one of higher priority is dispatched.
     */
    source = g_unix_fd_source_new(s->fd, G_IO_PRI);
    g_source_set_priority(source, G_PRIORITY_HIGH - 100);
    g_source_set_callback(source, G_SOURCE_FUNC(psi_ready), s, NULL);
    s->source = g_source_attach(source, NULL);
    g_source_unref(source);
    return true;
}

static void psi_close(PsiSource *s)
{
    if (s->source) {
        g_source_remove(s->source);
        s->source = 0;
    }
    if (s->fd >= 0) {
        close(s->fd);
        s->fd = -1;
    }
}

static bool psi_read(Probe *probe, PsiTotals *totals, GError **errp)
{
    char text[1024];
    gssize length = proc_file_read(&probe->pressure, text, sizeof(text), errp);

    return length >= 0 && psi_parse(text, length, totals, errp);
}

/* Once, at the start: what there is decides for good. */
static void psi_start(Probe *probe, ConfigPsi wanted, int64_t now_ns)
{
    g_autoptr(GError) error = NULL;

    probe->psi = CONFIG_PSI_OFF;
    g_strlcpy(probe->psi_text, "off", sizeof(probe->psi_text));
    if (wanted == CONFIG_PSI_OFF) {
        return;
    }
    if (!psi_read(probe, &probe->last, &error)) {
        log_warning("no pressure stall information (%s): "
                    "only available memory is watched",
                    error->message);
        g_strlcpy(probe->psi_text, "none", sizeof(probe->psi_text));
        return;
    }
    probe->old = probe->middle = probe->last;
    probe->old_ns = probe->middle_ns = now_ns;
    probe->psi = CONFIG_PSI_TOTALS;
    g_strlcpy(probe->psi_text, "totals", sizeof(probe->psi_text));
    if (wanted != CONFIG_PSI_TRIGGERS) {
        return;
    }
    if (!psi_open(probe, &probe->some, PSI_SOME, PSI_SOME_PERCENT, &error) ||
        !psi_open(probe, &probe->full, PSI_FULL, PSI_FULL_PERCENT, &error)) {
        log_warning("no PSI trigger (%s): the totals are used, at each tick",
                    error->message);
        return;
    }
    probe->psi = CONFIG_PSI_TRIGGERS;
    g_snprintf(probe->psi_text, sizeof(probe->psi_text), "triggers of %u ms",
               probe->window_ms);
}

static uint32_t permille_of(uint64_t now_us, uint64_t then_us, int64_t ns)
{
    /* A total that went back is another kernel's, or a test's. */
    if (now_us <= then_us || ns <= 0) {
        return 0;
    }
    return MIN((now_us - then_us) * 1000 / (ns / 1000 + 1), 1000);
}

static void psi_sample(Probe *probe, PolicySample *sample, int64_t now_ns)
{
    g_autoptr(GError) error = NULL;
    uint32_t full_permille;

    if (!psi_read(probe, &probe->last, &error)) {
        tell(&probe->psi_told, error, "pressure stall information");
        return;
    }
    tell(&probe->psi_told, NULL, "pressure stall information");
    sample->psi = true;
    sample->psi_some_permille =
        permille_of(probe->last.some_us, probe->old.some_us, now_ns - probe->old_ns);
    full_permille =
        permille_of(probe->last.full_us, probe->old.full_us, now_ns - probe->old_ns);
    if (probe->psi == CONFIG_PSI_TRIGGERS) {
        sample->psi_some_events = probe->some_events;
        sample->psi_full_events = probe->full_events;
    } else {
        sample->psi_some_events = sample->psi_some_permille >= PSI_SOME_PERCENT * 10;
        sample->psi_full_events = full_permille >= PSI_FULL_PERCENT * 10;
    }
    probe->some_events = 0;
    probe->full_events = 0;
    if (now_ns - probe->middle_ns >= NS_PER_S) {
        probe->old = probe->middle;
        probe->old_ns = probe->middle_ns;
        probe->middle = probe->last;
        probe->middle_ns = now_ns;
    }
}

/* Memory */

static void read_watermark(Probe *probe, int64_t now_ns)
{
    g_autofree char *text = g_malloc(ZONEINFO_MAX);
    g_autoptr(GError) error = NULL;
    gssize length;

    probe->high_read_ns = now_ns;
    length = proc_file_read(&probe->zoneinfo, text, ZONEINFO_MAX, &error);
    if (length >= 0) {
        zoneinfo_parse(text, length, probe->page_bytes, &probe->high_bytes, &error);
    }
    tell(&probe->zoneinfo_told, error, "the zones' watermarks");
}

static void read_meminfo(Probe *probe, PolicySample *sample)
{
    g_autoptr(GError) error = NULL;
    char text[16 * 1024];
    gssize length;
    Meminfo info;

    length = proc_file_read(&probe->meminfo, text, sizeof(text), &error);
    sample->readable = length >= 0 && meminfo_parse(text, length, &info, &error);
    if (sample->readable) {
        sample->ram_bytes = info.total_bytes;
        sample->available_bytes = info.available_bytes;
        sample->free_bytes = info.free_bytes;
    }
    tell(&probe->meminfo_told, error, "the host's memory");
}

void probe_read(Probe *probe, PolicySample *sample, int64_t now_ns)
{
    memset(sample, 0, sizeof(*sample));
    read_meminfo(probe, sample);
    if (!probe->high_read_ns || now_ns - probe->high_read_ns >= WATERMARK_NS) {
        read_watermark(probe, now_ns);
    }
    sample->high_watermark_bytes = probe->high_bytes;
    if (probe->psi != CONFIG_PSI_OFF) {
        psi_sample(probe, sample, now_ns);
    }
}

uint64_t probe_rss(ProcFile *file)
{
    static uint64_t page_bytes;
    char text[256];
    gssize length;
    uint64_t bytes;

    if (!page_bytes) {
        page_bytes = sysconf(_SC_PAGESIZE);
    }
    if (!file->path) {
        return POLICY_BYTES_UNKNOWN;
    }
    length = proc_file_read(file, text, sizeof(text), NULL);
    if (length < 0 || !statm_parse(text, length, page_bytes, &bytes, NULL)) {
        return POLICY_BYTES_UNKNOWN;
    }
    return bytes;
}

const char *probe_psi_text(const Probe *probe)
{
    return probe->psi_text;
}

Probe *probe_new(const Config *config, void (*psi_event)(void *opaque), void *opaque)
{
    Probe *probe = g_new0(Probe, 1);
    g_autofree char *meminfo = g_build_filename(config->proc_folder, "meminfo", NULL);
    g_autofree char *zoneinfo = g_build_filename(config->proc_folder, "zoneinfo", NULL);
    g_autofree char *pressure =
        g_build_filename(config->proc_folder, "pressure/memory", NULL);

    proc_file_init(&probe->meminfo, meminfo);
    proc_file_init(&probe->zoneinfo, zoneinfo);
    proc_file_init(&probe->pressure, pressure);
    probe->page_bytes = sysconf(_SC_PAGESIZE);
    probe->psi_event = psi_event;
    probe->opaque = opaque;
    probe->some = (PsiSource){ probe, 0, -1, &probe->some_events };
    probe->full = (PsiSource){ probe, 0, -1, &probe->full_events };
    psi_start(probe, config->psi, g_get_monotonic_time() * 1000);
    return probe;
}

void probe_free(Probe *probe)
{
    psi_close(&probe->some);
    psi_close(&probe->full);
    proc_file_clear(&probe->meminfo);
    proc_file_clear(&probe->zoneinfo);
    proc_file_clear(&probe->pressure);
    g_free(probe);
}
