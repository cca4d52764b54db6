/*
 * Pressure stall information of memory: /proc/pressure/memory
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <gio/gio.h>

#include "psi.h"
#include "scan.h"

static bool fail(GError **errp, const char *what)
{
    g_set_error(errp, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "%s", what);
    return false;
}

/* The number behind "total=" in what is left of a line. */
static bool psi_total(Span line, uint64_t *total_us)
{
    Span word;

    while (scan_word(&line, &word)) {
        if (span_starts(word, "total=")) {
            word.at += strlen("total=");
            word.length -= strlen("total=");
            return scan_number(word, total_us);
        }
    }
    return false;
}

bool psi_parse(const char *text, gsize length, PsiTotals *totals, GError **errp)
{
    Span rest = { text, length }, line, word;
    bool some = false, full = false;

    while (scan_line(&rest, &line)) {
        if (!scan_word(&line, &word)) {
            continue;
        }
        if (span_equal(word, "some")) {
            some = psi_total(line, &totals->some_us);
            if (!some) {
                return fail(errp, "pressure: 'some' has no total");
            }
        } else if (span_equal(word, "full")) {
            full = psi_total(line, &totals->full_us);
            if (!full) {
                return fail(errp, "pressure: 'full' has no total");
            }
        }
    }
    if (!some || !full) {
        return fail(errp, some ? "pressure: the line 'full' is missing"
                               : "pressure: the line 'some' is missing");
    }
    return true;
}

/* An open trigger, or -1 and errno. */
static int psi_trigger_try(const char *path, PsiKind kind, unsigned int percent,
                           unsigned int window_ms)
{
    g_autofree char *trigger = NULL;
    int fd, code;

    fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    trigger = g_strdup_printf("%s %u %u", kind == PSI_SOME ? "some" : "full",
                              window_ms * 10 * percent, window_ms * 1000);
    /* The kernel overwrites the last byte with a NUL: give it one to. */
    if (write(fd, trigger, strlen(trigger) + 1) < 0) {
        code = errno;
        close(fd);
        errno = code;
        return -1;
    }
    return fd;
}

int psi_trigger_open(const char *path, PsiKind kind, unsigned int percent,
                     unsigned int *window_ms, GError **errp)
{
    /*
     * The upstream kernel's least window is 500 ms, others go lower; without
     * CAP_SYS_RESOURCE only multiples of 2 s work.
     */
    static const unsigned int windows_ms[] = { 100, 500, 1000, 2000 };

    for (gsize i = 0; i < G_N_ELEMENTS(windows_ms); i++) {
        int fd = psi_trigger_try(path, kind, percent, windows_ms[i]);

        if (fd >= 0) {
            *window_ms = windows_ms[i];
            return fd;
        }
        if (errno != EINVAL && errno != EPERM) {
            break;
        }
    }
    g_set_error(errp, G_IO_ERROR, g_io_error_from_errno(errno), "%s: %s", path,
                g_strerror(errno));
    return -1;
}
