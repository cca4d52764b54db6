/*
 * Small pieces of text
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "scan.h"

bool scan_line(Span *text, Span *line)
{
    const char *end;

    if (!text->length) {
        return false;
    }
    end = memchr(text->at, '\n', text->length);
    line->at = text->at;
    line->length = end ? (gsize)(end - text->at) : text->length;
    text->at += line->length;
    text->length -= line->length;
    if (end) {
        text->at++;
        text->length--;
    }
    return true;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

bool scan_word(Span *line, Span *word)
{
    while (line->length && is_blank(*line->at)) {
        line->at++;
        line->length--;
    }
    word->at = line->at;
    while (line->length && !is_blank(*line->at)) {
        line->at++;
        line->length--;
    }
    word->length = line->at - word->at;
    return word->length != 0;
}

bool scan_number(Span word, uint64_t *value)
{
    uint64_t number = 0;

    if (!word.length) {
        return false;
    }
    for (gsize i = 0; i < word.length; i++) {
        if (!g_ascii_isdigit(word.at[i]) || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, word.at[i] - '0', &number)) {
            return false;
        }
    }
    *value = number;
    return true;
}
