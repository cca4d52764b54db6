/*
 * Small pieces of text
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef STEER_SCAN_H
#define STEER_SCAN_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <glib.h>

/* A piece of text that somebody else owns; no NUL at its end. */
typedef struct Span {
    const char *at;
    gsize length;
} Span;

/* Take the next line off @text, without its newline; false at the end. */
bool scan_line(Span *text, Span *line);

/* Take the next word off @line, words being separated by blanks. */
bool scan_word(Span *line, Span *word);

/*
 * All of @word as a decimal number.  No sign, no blank, nothing behind it; an
 * overflow is false, too.
 */
bool scan_number(Span word, uint64_t *value);

static inline bool span_equal(Span span, const char *text)
{
    return span.length == strlen(text) && memcmp(span.at, text, span.length) == 0;
}

static inline bool span_starts(Span span, const char *text)
{
    return span.length >= strlen(text) && memcmp(span.at, text, strlen(text)) == 0;
}

#endif
