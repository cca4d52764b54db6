/*
 * A look at a line of JSON that a stranger wrote, before it is parsed
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <string.h>

#include "json-scan.h"

typedef struct Scan {
    const char *at;
    const char *end;
} Scan;

static void skip_blanks(Scan *s)
{
    while (s->at < s->end &&
           (*s->at == ' ' || *s->at == '\t' || *s->at == '\r' || *s->at == '\n')) {
        s->at++;
    }
}

static bool take(Scan *s, char c)
{
    skip_blanks(s);
    if (s->at < s->end && *s->at == c) {
        s->at++;
        return true;
    }
    return false;
}

/* From one quote to the other. */
static bool skip_string(Scan *s)
{
    if (!take(s, '"')) {
        return false;
    }
    for (; s->at < s->end; s->at++) {
        if ((unsigned char)*s->at < ' ') {
            return false;
        }
        if (*s->at == '"') {
            s->at++;
            return true;
        }
        if (*s->at == '\\') {
            s->at++;
        }
    }
    return false;
}

static bool is_word(char c)
{
    return g_ascii_isalnum(c) || c == '-' || c == '+' || c == '.';
}

static bool skip_word(Scan *s)
{
    const char *start = s->at;

    while (s->at < s->end && is_word(*s->at)) {
        s->at++;
    }
    return s->at > start;
}

/* An object or array with all that is in it, or a single value. */
static bool skip_value(Scan *s)
{
    char open[JSON_SCAN_DEPTH_MAX];
    unsigned int depth = 0;

    do {
        skip_blanks(s);
        if (s->at == s->end) {
            return false;
        }
        switch (*s->at) {
        case '{':
        case '[':
            /* The outermost object is one level already. */
            if (depth == JSON_SCAN_DEPTH_MAX - 1) {
                return false;
            }
            open[depth++] = *s->at++;
            break;
        case '}':
        case ']':
            if (!depth || open[--depth] != (*s->at == '}' ? '{' : '[')) {
                return false;
            }
            s->at++;
            break;
        case ',':
        case ':':
            if (!depth) {
                return false;
            }
            s->at++;
            break;
        case '"':
            if (!skip_string(s)) {
                return false;
            }
            break;
        default:
            if (!skip_word(s)) {
                return false;
            }
        }
    } while (depth);
    return true;
}

static void keep(JsonMember *members, gsize count, const char *name, gsize name_length,
                 const char *value, gsize value_length)
{
    for (gsize i = 0; i < count; i++) {
        if (!members[i].text && strlen(members[i].name) == name_length &&
            memcmp(members[i].name, name, name_length) == 0) {
            members[i].text = value;
            members[i].length = value_length;
        }
    }
}

static bool scan_member(Scan *s, JsonMember *members, gsize count)
{
    const char *name, *value;
    gsize name_length;

    skip_blanks(s);
    name = s->at;
    if (!skip_string(s)) {
        return false;
    }
    name_length = s->at - name;
    if (!take(s, ':')) {
        return false;
    }
    skip_blanks(s);
    value = s->at;
    if (!skip_value(s)) {
        return false;
    }
    /* Without the quotes. */
    keep(members, count, name + 1, name_length - 2, value, s->at - value);
    return true;
}

bool json_scan(const char *text, gsize length, JsonMember *members, gsize count)
{
    Scan s = { text, text + length };

    for (gsize i = 0; i < count; i++) {
        members[i].text = NULL;
        members[i].length = 0;
    }
    if (!g_utf8_validate_len(text, length, NULL) || !take(&s, '{')) {
        return false;
    }
    if (!take(&s, '}')) {
        do {
            if (!scan_member(&s, members, count)) {
                return false;
            }
        } while (take(&s, ','));
        if (!take(&s, '}')) {
            return false;
        }
    }
    skip_blanks(&s);
    return s.at == s.end;
}
