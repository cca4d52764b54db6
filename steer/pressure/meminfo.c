/*
 * How much memory the host has left: /proc/meminfo, /proc/zoneinfo and the
 * memory of single processes
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <gio/gio.h>

#include "meminfo.h"
#include "scan.h"

static bool fail(GError **errp, const char *file, const char *field, const char *what)
{
    g_set_error(errp, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "%s: %s %s", file, field,
                what);
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

bool meminfo_parse(const char *text, gsize length, Meminfo *info, GError **errp)
{
    struct {
        const char *key;
        uint64_t *bytes;
        bool found;
    } fields[] = {
        { "MemTotal:", &info->total_bytes, false },
        { "MemFree:", &info->free_bytes, false },
        { "MemAvailable:", &info->available_bytes, false },
    };
    Span rest = { text, length }, line, key;

    while (scan_line(&rest, &line)) {
        bool some = scan_word(&line, &key);

        for (gsize i = 0; some && i < G_N_ELEMENTS(fields); i++) {
            if (!span_equal(key, fields[i].key)) {
                continue;
            }
            if (!scan_kib(line, fields[i].bytes)) {
                return fail(errp, "meminfo", fields[i].key, "is no size in kB");
            }
            fields[i].found = true;
        }
    }
    for (gsize i = 0; i < G_N_ELEMENTS(fields); i++) {
        if (!fields[i].found) {
            return fail(errp, "meminfo", fields[i].key, "is missing");
        }
    }
    return info->total_bytes || fail(errp, "meminfo", "MemTotal:", "is zero");
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
            return fail(errp, "zoneinfo", "a high watermark", "is no number");
        }
        found = true;
    }
    if (!found) {
        return fail(errp, "zoneinfo", "a high watermark", "is missing");
    }
    if (__builtin_mul_overflow(sum, page_bytes, high_bytes)) {
        return fail(errp, "zoneinfo", "the sum", "is out of range");
    }
    return true;
}

bool statm_parse(const char *text, gsize length, uint64_t page_bytes, uint64_t *rss_bytes,
                 GError **errp)
{
    Span line = { text, length }, word;
    uint64_t pages;

    if (!scan_word(&line, &word) || !scan_word(&line, &word) ||
        !scan_number(word, &pages) ||
        __builtin_mul_overflow(pages, page_bytes, rss_bytes)) {
        return fail(errp, "statm", "the second word", "is no number of pages");
    }
    return true;
}
