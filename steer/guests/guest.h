/*
 * Guests, however they are reached
 *
 * A backend finds guests and talks to them: QMP sockets in a folder, or
 * libvirt.  It measures and sends; it decides nothing.  Everything here runs
 * in the main thread, the listener's functions included.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef STEER_GUEST_H
#define STEER_GUEST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <glib.h>

/* What QEMU takes; see qapi/balloon-report.json. */
#define GUEST_DELAY_MS_MAX 600000u
#define GUEST_LEASE_MS_MAX 3600000u

/* No such value: nothing asked, nothing applied, a lease without an end. */
#define GUEST_NONE UINT32_MAX

/* What query-balloon-report-delay says, checked. */
typedef struct GuestInfo {
    bool offered;
    bool negotiated;
    bool inhibited;
    uint32_t requested_ms;
    uint32_t applied_ms;
    uint32_t lease_left_ms;
    uint64_t reports;
    uint64_t reported_bytes;
    uint64_t discarded_bytes;
} GuestInfo;

typedef struct Guest Guest;
typedef struct GuestBackend GuestBackend;

typedef enum GuestOp {
    GUEST_OP_SET, /* ask for a delay, with a lease */
    GUEST_OP_WITHDRAW,
    GUEST_OP_QUERY,
} GuestOp;

typedef struct GuestCommand {
    GuestOp op;
    /* The caller's, comes back with the answer.  A later one replaces it. */
    uint32_t tag;
    /* SET: lease_ms 0 is none. */
    uint32_t delay_ms;
    uint32_t lease_ms;
    /* SET: look first, and do nothing, if the guest is being migrated. */
    bool not_while_migrating;
    /* QUERY: also what the guest says it uses, and migration. */
    bool hints;
} GuestCommand;

typedef enum GuestVerdict {
    GUEST_OK,
    GUEST_REFUSED,   /* QEMU said no: see error */
    GUEST_MIGRATING, /* nothing was sent */
    GUEST_LOST,      /* whether QEMU got it is not known */
} GuestVerdict;

typedef struct GuestAnswer {
    uint32_t tag;
    GuestOp op;
    GuestVerdict verdict;
    /* Untrusted text, made printable; NULL unless refused or lost. */
    const char *error;
    /* QUERY */
    GuestInfo info;
    /* QUERY with hints; they may be absent, and the first is a guest's word. */
    bool has_used, has_migrating, has_rss;
    uint64_t used_bytes;
    bool migrating;
    /* Measured by the host; only from a backend that does not know the pid. */
    uint64_t rss_bytes;
} GuestAnswer;

struct Guest {
    GuestBackend *backend;
    /* Printable, unique within the backend. */
    char *name;
    /* QEMU's, 0 if unknown. */
    pid_t pid;
    /* Whether commands can be sent; if not, why. */
    bool up;
    char *why;
    /* The listener's. */
    void *data;
};

typedef struct GuestListener {
    void *opaque;
    /* A guest exists, not up yet. */
    void (*found)(void *opaque, Guest *guest);
    /* guest->up, or guest->why, has changed.  What was under way is lost. */
    void (*changed)(void *opaque, Guest *guest);
    /* The guest is gone and will be freed. */
    void (*lost)(void *opaque, Guest *guest);
    void (*answered)(void *opaque, Guest *guest, const GuestAnswer *answer);
    /* Its driver has written another delay; GUEST_NONE for no request. */
    void (*applied)(void *opaque, Guest *guest, uint32_t applied_ms,
                    uint32_t requested_ms);
    /* Something an operator should read; guest may be NULL. */
    void (*trouble)(void *opaque, const Guest *guest, const char *text);
} GuestListener;

/* A module for another backend is asked for this by its name. */
#define GUEST_BACKEND_ABI 2
#define GUEST_BACKEND_SYMBOL "steer_guest_backend"

typedef struct GuestBackendClass {
    unsigned int abi;
    const char *name;
    /*
     * @where: the folder, or libvirt's URI
     * @listener: stays the caller's, outlives the backend
     */
    GuestBackend *(*start)(const char *where, const GuestListener *listener,
                           GError **errp);
    /* False: not up; no answer will come. */
    bool (*send)(Guest *guest, const GuestCommand *command);
    /* Time passes: @now_us is monotonic.  Called with every tick. */
    void (*tick)(GuestBackend *backend, int64_t now_us);
    /*
     * Every guest is lost, then all is freed.  False: a thread of it hangs in a
     * call, is left behind, and ends with the process.
     */
    bool (*stop)(GuestBackend *backend);
} GuestBackendClass;

struct GuestBackend {
    const GuestBackendClass *class;
    const GuestListener *listener;
};

static inline bool guest_send(Guest *guest, const GuestCommand *command)
{
    return guest->up && guest->backend->class->send(guest, command);
}

extern const GuestBackendClass qmp_backend_class;

#endif
