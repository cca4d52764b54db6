/*
 * QEMUs that are not there: QMP servers that follow a script, for tests and
 * benchmarks
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef STEER_FAKE_QMP_H
#define STEER_FAKE_QMP_H

#include <stdbool.h>
#include <stdint.h>
#include <glib.h>

/* How a server behaves.  But for GOOD, OLD, REFUSES and BURST, it is hostile. */
typedef enum FakeScript {
    FAKE_GOOD,
    FAKE_OLD,     /* a QEMU without our commands */
    FAKE_REFUSES, /* report-delay=off: an error for each set */
    FAKE_MIGRATES,
    FAKE_BYTEWISE,      /* good, one byte at a time */
    FAKE_LATE_GREETING, /* after 300 ms */
    FAKE_NO_GREETING,
    FAKE_GARBAGE,      /* binary instead of a greeting */
    FAKE_NOT_QMP,      /* JSON, but no greeting */
    FAKE_NO_HANDSHAKE, /* greets and falls silent */
    FAKE_STUCK,        /* reads, and answers nothing after the handshake */
    FAKE_DEAF,         /* does not even read after the handshake */
    FAKE_OVERSIZED,    /* a line without an end */
    FAKE_DEEP,         /* a deeply nested reply */
    FAKE_CLOSES,       /* closes in the middle of a reply */
    FAKE_OUT_OF_ORDER, /* earlier ids first, then the right one */
    FAKE_WRONG_ID,     /* an id that was not given */
    FAKE_NO_ID,
    FAKE_FLOOD, /* events without an end */
    FAKE_BURST, /* good, but for 320 KiB of events, once */
    FAKE_LIES,  /* replies of the wrong types and ranges */
    FAKE_SCRIPTS
} FakeScript;

typedef struct FakeGuest {
    char *name;
    FakeScript script;
    /* What the device holds; UINT32_MAX for none. */
    uint32_t requested_ms;
    uint32_t applied_ms;
    uint32_t lease_ms;
    int64_t lease_end_us;
    uint64_t discarded_bytes;
    /* What has been seen. */
    unsigned int connections;
    unsigned int sets;
    unsigned int withdrawals;
    unsigned int queries;
    unsigned int lease_ends;
    int64_t set_us; /* the last set, monotonic */
    /* A test's: an applied value that the next queries report, or none. */
    uint32_t other_writer_ms;
} FakeGuest;

typedef struct FakeHost FakeHost;

/*
 * Servers in @folder, run by a thread of their own.
 */
FakeHost *fake_host_new(const char *folder);
void fake_host_free(FakeHost *host);

void fake_host_add(FakeHost *host, const char *name, FakeScript script);
/* As when QEMU exits: the socket's file and all connections go. */
void fake_host_remove(FakeHost *host, const char *name);

/* A copy of what is known of a guest now; its name is not copied. */
FakeGuest fake_host_look(FakeHost *host, const char *name);
/* The same by number, in the order of fake_host_add(). */
FakeGuest fake_host_look_at(FakeHost *host, unsigned int index);

/* The applied value that a guest reports from now on. */
void fake_host_write(FakeHost *host, const char *name, uint32_t applied_ms);

const char *fake_script_name(FakeScript script);

#endif
