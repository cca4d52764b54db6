/*
 * One QMP connection, to a QEMU that is not trusted
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef STEER_QMP_CLIENT_H
#define STEER_QMP_CLIENT_H

#include "guest.h"

/* The longest line that is taken: a qom-list of a thousand devices. */
#define QMP_LINE_MAX (64 * 1024)

/* A QEMU that has another client accepts, and greets when that one is gone. */
#define QMP_GREETING_US (60 * G_USEC_PER_SEC)
#define QMP_HANDSHAKE_US (10 * G_USEC_PER_SEC)

/*
 * What a guest may make us read: events are some 100 bytes each, and a QEMU
 * that works sends a few in a second.
 */
#define QMP_BYTES_PER_S (16 * 1024)
#define QMP_BYTES_BURST (4 * QMP_LINE_MAX)
#define QMP_EVENTS_PER_S 4
#define QMP_EVENTS_BURST 20

/*
 * A burst beyond that is read slowly.  What goes on for so long is no burst,
 * and QEMU keeps all that we do not read: the connection is closed.  Then a
 * flood costs us one line and a bit for each attempt, and the attempts become
 * rare, until a connection was quiet for QMP_RETRY_MAX_US.
 */
#define QMP_FLOOD_US (10 * G_USEC_PER_SEC)
#define QMP_BYTES_BURST_AGAIN (QMP_LINE_MAX + QMP_BYTES_PER_S)
#define QMP_FLOOD_RETRY_MIN_US (4 * G_USEC_PER_SEC)

/* Before connecting again; doubled from the one to the other. */
#define QMP_RETRY_MIN_US (G_USEC_PER_SEC / 8)
#define QMP_RETRY_MAX_US (60 * G_USEC_PER_SEC)

typedef enum QmpState {
    QMP_OFF,     /* no connection; the deadline says when to try again */
    QMP_WAITING, /* for the greeting */
    QMP_HANDSHAKE,
    QMP_READY,
} QmpState;

/* A command may take more than one exchange. */
typedef enum QmpStep {
    QMP_STEP_NONE,
    QMP_STEP_ASK_MIGRATION,
    QMP_STEP_SET,
    QMP_STEP_INFO,
    QMP_STEP_FIND,
    QMP_STEP_FIND_ANON,
    QMP_STEP_STATS,
    QMP_STEP_MIGRATION,
} QmpStep;

typedef struct QmpOperation {
    QmpStep step;
    uint64_t id;
    GuestCommand command;
    GuestAnswer answer;
} QmpOperation;

/* A rate, and how much of it is left. */
typedef struct QmpBudget {
    int64_t left;
    int64_t at_us;
} QmpBudget;

typedef struct QmpClient {
    Guest guest;
    char *file; /* the socket's name in the folder */
    int fd;
    int epoll_fd; /* the backend's */
    QmpState state;
    int64_t deadline_us;
    int64_t retry_us;
    int64_t up_us;
    uint64_t last_id;
    /* A query never waits for a set, nor the other way round. */
    QmpOperation set, query;
    GByteArray *partial;
    GString *unsent;
    bool throttled;
    int64_t flood_us; /* since when it sends too much, or 0 */
    bool flooded;     /* it was cut off for that, and has not been quiet since */
    QmpBudget bytes, events;
    bool balloon_sought;
    char *balloon; /* its QOM path, or NULL */
    bool file_gone;
} QmpClient;

QmpClient *qmp_client_new(GuestBackend *backend, const char *name, const char *file,
                          int epoll_fd);
void qmp_client_free(QmpClient *c);

/* @folder_fd: of the folder that has the socket */
void qmp_client_connect(QmpClient *c, int folder_fd, int64_t now_us);

/* @events: of epoll_wait() */
void qmp_client_ready(QmpClient *c, uint32_t events, int64_t now_us);

/* What time does: an overdue peer, a budget that is full again. */
void qmp_client_tick(QmpClient *c, int64_t now_us);

static inline bool qmp_client_wants_connect(const QmpClient *c, int64_t now_us)
{
    return c->state == QMP_OFF && !c->file_gone && now_us >= c->deadline_us;
}

bool qmp_client_send(QmpClient *c, const GuestCommand *command);

#endif
