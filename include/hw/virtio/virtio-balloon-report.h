/*
 * virtio-balloon: free page reporting at a delay that the host chooses
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef QEMU_VIRTIO_BALLOON_REPORT_H
#define QEMU_VIRTIO_BALLOON_REPORT_H

#include "standard-headers/linux/virtio_balloon.h"
#include "hw/virtio/virtio.h"
#include "migration/vmstate.h"
#include "qom/object.h"

typedef struct VirtIOBalloon VirtIOBalloon;

/* Bounds, in milliseconds; the lower ones are 0 and 1. */
#define VIRTIO_BALLOON_REPORT_DELAY_MS_MAX 600000
#define VIRTIO_BALLOON_REPORT_LEASE_MS_MAX 3600000

/* The report side's part of a VirtIOBalloon.  Protected by the BQL. */
typedef struct VirtIOBalloonReport {
    /* What the guest is asked for, or VIRTIO_BALLOON_REPORT_DELAY_NONE */
    uint32_t requested_ms;
    /*
     * The config field report_delay_applied_ms as the driver left it.  What
     * is out of range, none included, is no answer.
     */
    uint32_t applied_raw;
    /* The last answer that an event was sent for, or none */
    uint32_t announced_ms;
    /* Withdraws the request; pending while a lease runs */
    QEMUTimer *lease_timer;
    /* What is left of the lease, in the migration stream only; 0: none */
    uint32_t lease_left_ms;
    /* Counted from realize on */
    uint64_t reports;
    uint64_t reported_bytes;
    uint64_t discarded_bytes;
} VirtIOBalloonReport;

extern const VMStateDescription vmstate_virtio_balloon_report_delay;

/*
 * Adds the property report-delay-ms to the device's class.  Being of the class,
 * it is aliased on the device's proxies as every property of it is.
 */
void virtio_balloon_report_class_init(ObjectClass *klass);

/* For instance_init: no request, nothing applied. */
void virtio_balloon_report_init(VirtIOBalloon *s);

/*
 * For the start of realize, before anything is taken: do the properties go
 * together?
 */
bool virtio_balloon_report_check(VirtIOBalloon *s, Error **errp);

/* For the end of realize and for unrealize: the commands find the device. */
void virtio_balloon_report_realize(VirtIOBalloon *s);
void virtio_balloon_report_unrealize(VirtIOBalloon *s);

/* The driver starts anew: its answer is void, the request is not. */
void virtio_balloon_report_reset(VirtIOBalloon *s);

/* The two config fields.  @conf is the whole config space. */
void virtio_balloon_report_get_config(const VirtIOBalloon *s,
                                      struct virtio_balloon_config *conf);
void virtio_balloon_report_set_config(VirtIOBalloon *s,
                                      const struct virtio_balloon_config *conf);

/*
 * Counts a report of the guest.
 * @elem: the report; its in_sg are what is offered
 * @discarded: bytes of it that were discarded without an error
 */
void virtio_balloon_report_count(VirtIOBalloon *s, const VirtQueueElement *elem,
                                 uint64_t discarded);

#endif
