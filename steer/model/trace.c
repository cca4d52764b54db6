/*
 * A recorded trace, written and read
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "trace.h"

#define HEADER "balloon-steer trace 1\n"
#define UNKNOWN "unknown"
#define TIME_MS_MAX (INT64_MAX / 1000000 / 4)
#define FIELDS_MAX 16

G_DEFINE_QUARK(balloon - steer - trace - error - quark, trace_error)

/* Writing */

bool trace_write_header(FILE *file)
{
    return fputs(HEADER, file) >= 0;
}

bool trace_write_host(FILE *file, int64_t time_ms, const PolicySample *s)
{
    return fprintf(file,
                   "host,%" PRId64 ",%d,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
                   ",%d,%" PRIu32 ",%" PRIu32 ",%" PRIu32 "\n",
                   time_ms, s->readable, s->ram_bytes, s->available_bytes, s->free_bytes,
                   s->high_watermark_bytes, s->psi, s->psi_some_events,
                   s->psi_full_events, s->psi_some_permille) >= 0;
}

static bool name_byte(char c)
{
    return (unsigned char)c >= ' ' && c != ',' && c != 0x7f;
}

static bool write_name(FILE *file, const char *kind, int64_t time_ms, const char *name)
{
    char clean[sizeof(((TraceRow *)NULL)->name)];
    size_t i;

    for (i = 0; i + 1 < sizeof(clean) && name[i]; i++) {
        clean[i] = name_byte(name[i]) ? name[i] : '_';
    }
    clean[i] = 0;
    return fprintf(file, "%s,%" PRId64 ",%s", kind, time_ms, clean) >= 0;
}

static bool write_bytes(FILE *file, uint64_t bytes)
{
    return bytes == POLICY_BYTES_UNKNOWN ? fputs("," UNKNOWN, file) >= 0
                                         : fprintf(file, ",%" PRIu64, bytes) >= 0;
}

bool trace_write_vm(FILE *file, int64_t time_ms, const char *name,
                    const PolicyVmSample *vm)
{
    static const char *const migrations[] = { "no", "yes", UNKNOWN };

    return write_name(file, "vm", time_ms, name) &&
           fprintf(file, ",%d,%d,%d,%d,%" PRIu64, vm->connected, vm->offered,
                   vm->negotiated, vm->inhibited, vm->discarded_bytes) >= 0 &&
           write_bytes(file, vm->host_bytes) && write_bytes(file, vm->guest_used_bytes) &&
           fprintf(file, ",%s,%d,%" PRIu32 "\n", migrations[vm->migration % 3], vm->steer,
                   vm->weight) >= 0;
}

bool trace_write_gone(FILE *file, int64_t time_ms, const char *name)
{
    return write_name(file, "gone", time_ms, name) && fputs("\n", file) >= 0;
}

/* Reading */

typedef struct Fields {
    const TraceReader *reader;
    char *field[FIELDS_MAX];
    size_t count;
    size_t at;
    GError **error;
    bool failed;
} Fields;

static void fields_fail(Fields *f, const char *name, const char *value,
                        const char *allowed)
{
    g_autofree char *safe = NULL;

    if (f->failed) {
        return;
    }
    f->failed = true;
    safe = g_strescape(value, NULL);
    g_set_error(f->error, TRACE_ERROR, TRACE_ERROR_FORMAT,
                "%s:%u: '%s' is '%.64s', it must be %s", f->reader->file_name,
                f->reader->line, name, safe, allowed);
}

static const char *fields_next(Fields *f)
{
    return f->at < f->count ? f->field[f->at++] : "";
}

static uint64_t fields_number(Fields *f, const char *name, uint64_t max)
{
    const char *text = fields_next(f);
    g_autofree char *allowed = NULL;
    guint64 value = 0;

    /* It takes no sign and no space, as strtoull() does. */
    if (!g_ascii_isdigit(*text) ||
        !g_ascii_string_to_unsigned(text, 10, 0, max, &value, NULL)) {
        allowed = g_strdup_printf("0 to %" PRIu64, max);
        fields_fail(f, name, text, allowed);
    }
    return value;
}

static bool fields_bool(Fields *f, const char *name)
{
    return fields_number(f, name, 1);
}

static uint64_t fields_bytes(Fields *f, const char *name)
{
    return fields_number(f, name, INT64_MAX);
}

static uint64_t fields_hint(Fields *f, const char *name)
{
    if (f->at < f->count && !strcmp(f->field[f->at], UNKNOWN)) {
        f->at++;
        return POLICY_BYTES_UNKNOWN;
    }
    return fields_bytes(f, name);
}

static PolicyMigration fields_migration(Fields *f, const char *name)
{
    const char *text = fields_next(f);

    if (!strcmp(text, "no")) {
        return POLICY_MIGRATION_NO;
    }
    if (!strcmp(text, "yes")) {
        return POLICY_MIGRATION_YES;
    }
    if (strcmp(text, UNKNOWN)) {
        fields_fail(f, name, text, "no, yes or " UNKNOWN);
    }
    return POLICY_MIGRATION_UNKNOWN;
}

static void fields_name(Fields *f, TraceRow *row)
{
    const char *text = fields_next(f);
    size_t length = strlen(text);
    bool good = length && length < sizeof(row->name);

    for (size_t i = 0; good && i < length; i++) {
        good = name_byte(text[i]);
    }
    if (good) {
        memcpy(row->name, text, length + 1);
    } else {
        fields_fail(f, "name", text, "1 to 255 bytes, none of them a control byte");
    }
}

static void fields_host(Fields *f, PolicySample *s)
{
    s->readable = fields_bool(f, "readable");
    s->ram_bytes = fields_bytes(f, "ram-bytes");
    s->available_bytes = fields_bytes(f, "available-bytes");
    s->free_bytes = fields_bytes(f, "free-bytes");
    s->high_watermark_bytes = fields_bytes(f, "high-watermark-bytes");
    s->psi = fields_bool(f, "psi");
    s->psi_some_events = fields_number(f, "psi-some-events", UINT32_MAX);
    s->psi_full_events = fields_number(f, "psi-full-events", UINT32_MAX);
    s->psi_some_permille = fields_number(f, "psi-some-permille", 1000);
}

static void fields_vm(Fields *f, PolicyVmSample *vm)
{
    vm->connected = fields_bool(f, "connected");
    vm->offered = fields_bool(f, "offered");
    vm->negotiated = fields_bool(f, "negotiated");
    vm->inhibited = fields_bool(f, "inhibited");
    vm->discarded_bytes = fields_bytes(f, "discarded-bytes");
    vm->host_bytes = fields_hint(f, "host-bytes");
    vm->guest_used_bytes = fields_hint(f, "guest-used-bytes");
    vm->migration = fields_migration(f, "migration");
    vm->steer = fields_bool(f, "steer");
    vm->weight = fields_number(f, "weight", POLICY_WEIGHT_MAX);
}

static const struct {
    const char *name;
    TraceKind kind;
    size_t fields;
} kinds[] = {
    { "host", TRACE_HOST, 11 },
    { "vm", TRACE_VM, 13 },
    { "gone", TRACE_GONE, 3 },
};

static void fields_row(Fields *f, TraceRow *row)
{
    const char *kind = fields_next(f);
    g_autofree char *wanted = NULL, *found = NULL;
    size_t i = 0;

    while (i < G_N_ELEMENTS(kinds) && strcmp(kind, kinds[i].name)) {
        i++;
    }
    if (i == G_N_ELEMENTS(kinds)) {
        fields_fail(f, "kind", kind, "host, vm or gone");
        return;
    }
    if (f->count != kinds[i].fields) {
        found = g_strdup_printf("%zu", f->count);
        wanted = g_strdup_printf("%zu for '%s'", kinds[i].fields, kind);
        fields_fail(f, "number of fields", found, wanted);
        return;
    }
    row->kind = kinds[i].kind;
    row->time_ms = fields_number(f, "time-ms", TIME_MS_MAX);
    switch (row->kind) {
    case TRACE_HOST:
        fields_host(f, &row->host);
        break;
    case TRACE_VM:
        fields_name(f, row);
        fields_vm(f, &row->vm);
        break;
    default:
        fields_name(f, row);
        break;
    }
}

/* Time does not go back, and a trace is no place for a gap of days. */
static void fields_check_time(Fields *f, TraceReader *reader, int64_t time_ms)
{
    int64_t first = reader->last_ms, last = first + TRACE_GAP_MS_MAX;

    if (!reader->rows++) {
        last = TIME_MS_MAX;
    }
    if (time_ms < first || time_ms > last) {
        g_autofree char *value = g_strdup_printf("%" PRId64, time_ms);
        g_autofree char *allowed =
            g_strdup_printf("%" PRId64 " to %" PRId64, first, last);

        fields_fail(f, "time-ms", value, allowed);
    }
    reader->last_ms = time_ms;
}

/* A line into @line; false at the end, or with @error */
static bool read_line(TraceReader *r, char *line, GError **error)
{
    size_t length = 0;
    int c;

    r->line++;
    while ((c = getc(r->file)) != EOF && c != '\n') {
        if (!c || length + 2 > TRACE_LINE_MAX) {
            g_set_error(error, TRACE_ERROR, TRACE_ERROR_FORMAT,
                        c ? "%s:%u: the line is longer than %d bytes"
                          : "%s:%u: a NUL byte within the first %d bytes",
                        r->file_name, r->line, TRACE_LINE_MAX);
            return false;
        }
        line[length++] = c;
    }
    if (ferror(r->file)) {
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_IO, "%s: %s", r->file_name,
                    g_strerror(errno));
        return false;
    }
    if (length && line[length - 1] == '\r') {
        length--;
    }
    line[length] = 0;
    return c != EOF || length;
}

static void split(Fields *f, char *line)
{
    f->field[f->count++] = line;
    for (; *line; line++) {
        if (*line == ',') {
            *line = 0;
            if (f->count == FIELDS_MAX) {
                return;
            }
            f->field[f->count++] = line + 1;
        }
    }
}

bool trace_open(TraceReader *reader, FILE *file, const char *file_name, GError **error)
{
    char line[TRACE_LINE_MAX] = "";
    GError *local = NULL;

    *reader = (TraceReader){ .file = file, .file_name = file_name };
    read_line(reader, line, &local);
    if (local) {
        g_propagate_error(error, local);
        return false;
    }
    if (strncmp(line, HEADER, strlen(HEADER) - 1) || line[strlen(HEADER) - 1]) {
        g_autofree char *safe = g_strescape(line, NULL);

        g_set_error(error, TRACE_ERROR, TRACE_ERROR_FORMAT,
                    "%s:1: the line is '%.64s', it must be '%.*s'", file_name, safe,
                    (int)strlen(HEADER) - 1, HEADER);
        return false;
    }
    return true;
}

bool trace_read(TraceReader *reader, TraceRow *row, GError **error)
{
    char line[TRACE_LINE_MAX];
    Fields f = { .reader = reader, .error = error };
    GError *local = NULL;

    *row = (TraceRow){ .kind = TRACE_END };
    do {
        if (!read_line(reader, line, &local)) {
            if (!local) {
                return true;
            }
            g_propagate_error(error, local);
            return false;
        }
    } while (!line[0] || line[0] == '#');

    split(&f, line);
    fields_row(&f, row);
    if (!f.failed) {
        fields_check_time(&f, reader, row->time_ms);
    }
    return !f.failed;
}
