/*
 * A recorded trace: CSV text that `balloon-steer record` writes and `simulate`
 * reads. README.md describes it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef STEER_MODEL_TRACE_H
#define STEER_MODEL_TRACE_H

#include <glib.h>
#include <stdio.h>

#include "policy.h"

#define TRACE_ERROR trace_error_quark()
GQuark trace_error_quark(void);

typedef enum TraceError {
    TRACE_ERROR_IO,
    TRACE_ERROR_FORMAT,
} TraceError;

/* A line is at most this long, its end included */
#define TRACE_LINE_MAX 1024
/* No two rows are further apart */
#define TRACE_GAP_MS_MAX INT64_C(86400000)

typedef enum TraceKind {
    TRACE_END,
    TRACE_HOST,
    TRACE_VM,
    TRACE_GONE,
} TraceKind;

/* One line */
typedef struct TraceRow {
    TraceKind kind;
    int64_t time_ms;
    char name[256];    /* VM and GONE: no comma, no control byte */
    PolicySample host; /* HOST; but for .vms and .vm_count */
    PolicyVmSample vm; /* VM; replies, pins and query_sent_ns unset */
} TraceRow;

typedef struct TraceReader {
    FILE *file; /* the caller's */
    const char *file_name;
    unsigned int line;
    uint64_t rows;
    int64_t last_ms;
} TraceReader;

/* The first line of a trace. False with errno set if it cannot be written. */
bool trace_write_header(FILE *file);
bool trace_write_host(FILE *file, int64_t time_ms, const PolicySample *host);
/* @name: what would not be a name in a trace is written as '_' */
bool trace_write_vm(FILE *file, int64_t time_ms, const char *name,
                    const PolicyVmSample *vm);
bool trace_write_gone(FILE *file, int64_t time_ms, const char *name);

/* Reads the first line. @file and @file_name stay the caller's. */
bool trace_open(TraceReader *reader, FILE *file, const char *file_name, GError **error);
/*
 * Reads one row; kind TRACE_END at the end. An error names file, line, value
 * and what is allowed.
 */
bool trace_read(TraceReader *reader, TraceRow *row, GError **error);

#endif /* STEER_MODEL_TRACE_H */
