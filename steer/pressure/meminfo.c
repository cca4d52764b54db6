/*
 * How much memory the host has left: /proc/meminfo, /proc/zoneinfo and the
 * memory of single processes
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <gio/gio.h>

#include "meminfo.h"
#include "scan.h"

static bool fail(GError **errp, const char *what)
{
    g_set_error(errp, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "%s", what);
    return false;
}

/* "  23488836 kB" */
static bool scan_kib(Span line, uint64_t *bytes)
{
    Span word, unit;

    return scan_word(&line, &word) && scan_number(word, bytes) &&
           scan_word(&line, &unit) && span_equal(unit, "kB") &&
           !__builtin_mul_overflow(*bytes, 1024, bytes);
}

bool meminfo_parse(const char *text, gsize length, Meminfo *info,
                   GError **errp)
{
    Span rest = { text, length }, line, key;
    bool total = false, available = false;

    while (scan_line(&rest, &line) && !(total && available)) {
        if (!scan_word(&line, &key)) {
            continue;
        }
        if (span_equal(key, "MemTotal:")) {
            total = scan_kib(line, &info->total_bytes);
            if (!total || !info->total_bytes) {
                return fail(errp, "meminfo: MemTotal is no size in kB");
            }
        } else if (span_equal(key, "MemAvailable:")) {
            available = scan_kib(line, &info->available_bytes);
            if (!available) {
                return fail(errp, "meminfo: MemAvailable is no size in kB");
            }
        }
    }
    if (!total || !available) {
        return fail(errp, total ? "meminfo: MemAvailable is missing" :
                                  "meminfo: MemTotal is missing");
    }
    return true;
}

bool zoneinfo_parse(const char *text, gsize length, uint64_t page_bytes,
                    uint64_t *high_bytes, GError **errp)
{
    Span rest = { text, length }, line, word;
    uint64_t pages, sum = 0;
    bool found = false;

    while (scan_line(&rest, &line)) {
        /* A CPU's list has a "high:" of its own, which is no watermark. */
        if (!scan_word(&line, &word) || !span_equal(word, "high")) {
            continue;
        }
        if (!scan_word(&line, &word) || !scan_number(word, &pages) ||
            __builtin_add_overflow(sum, pages, &sum)) {
            return fail(errp, "zoneinfo: a high watermark is no number");
        }
        found = true;
    }
    if (!found) {
        return fail(errp, "zoneinfo: no zone has a high watermark");
    }
    if (__builtin_mul_overflow(sum, page_bytes, high_bytes)) {
        return fail(errp, "zoneinfo: the high watermarks are out of range");
    }
    return true;
}

bool statm_parse(const char *text, gsize length, uint64_t page_bytes,
                 uint64_t *rss_bytes, GError **errp)
{
    Span line = { text, length }, word;
    uint64_t pages;

    if (!scan_word(&line, &word) || !scan_word(&line, &word) ||
        !scan_number(word, &pages) ||
        __builtin_mul_overflow(pages, page_bytes, rss_bytes)) {
        return fail(errp, "statm: the second word is no number of pages");
    }
    return true;
}
