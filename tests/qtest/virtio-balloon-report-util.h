/*
 * QTest: a virtio-balloon with a report delay, and a driver of it that the test
 * plays
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef TESTS_VIRTIO_BALLOON_REPORT_UTIL_H
#define TESTS_VIRTIO_BALLOON_REPORT_UTIL_H

#include "libqtest.h"
#include "libqos/libqos-pc.h"
#include "libqos/virtio.h"
#include "libqos/virtio-pci.h"
#include "qobject/qdict.h"
#include "standard-headers/linux/virtio_balloon.h"
#include "standard-headers/linux/virtio_config.h"
#include "standard-headers/linux/virtio_pci.h"

#define ACTUAL_OFFSET 4
#define POISON_OFFSET 12
#define REQUEST_OFFSET 16
#define APPLIED_OFFSET 20
#define NONE VIRTIO_BALLOON_REPORT_DELAY_NONE
#define ON "free-page-reporting=on,report-delay=on"
#define EVENT "BALLOON_REPORT_DELAY_CHANGE"

/* Longer than the second in which a second event is held back. */
#define EVENT_WINDOW_NS (2 * G_USEC_PER_SEC * 1000ll)

/* A loaded machine may be slow; a correct one never needs this long. */
#define TIMEOUT_US (30 * G_USEC_PER_SEC)

typedef struct Balloon {
    QOSState *qs;
    QTestState *qts;
    QVirtioPCIDevice *dev;
    bool modern;
} Balloon;

static const uint64_t report_bits = 1ull << VIRTIO_BALLOON_F_REPORTING |
                                    1ull << VIRTIO_BALLOON_F_REPORT_DELAY;

/*
 * A machine (pc) with a balloon in slot 4 that no driver has touched but to
 * reset it.
 * @transport: "modern" or "legacy", of virtio-pci
 * @options: more properties of the device, not empty
 * @machine: more options of QEMU
 */
Balloon *start_machine(const char *transport, const char *options,
                       const char *machine);
Balloon *start(const void *transport, const char *options);
Balloon *start_negotiated(const void *transport);
void stop(Balloon *b);

/* Finds the device in slot 4 and resets it, as a new driver does. */
void find_device(Balloon *b);
void lose_device(Balloon *b);

/* After a migration: as find_device(), for a driver that goes on. */
void find_device_again(Balloon *b);

/* Accepts what is offered but for @without, and goes to DRIVER_OK. */
void negotiate(Balloon *b, uint64_t without);

/* Config space, as a driver of the transport reads and writes it. */
uint32_t read_config(Balloon *b, unsigned int offset);
void write_config(Balloon *b, unsigned int offset, uint32_t value);
void write_byte(Balloon *b, unsigned int offset, uint8_t value);

/* Reads and so clears what is pending. */
bool config_interrupt(Balloon *b);

/* QMP */
void set_delay(QTestState *qts, unsigned int ms);
void set_lease(QTestState *qts, unsigned int ms, unsigned int lease_ms);
void withdraw(QTestState *qts);
QDict *query(QTestState *qts);
bool query_bool(QTestState *qts, const char *key);
/* A number of the query, or -1 where it is absent. */
int64_t query_int(QTestState *qts, const char *key);

/* A command fails, with this class and these words in the text. */
void assert_error(QDict *response, const char *class, const char *words);
void assert_applied_event(QTestState *qts, int64_t applied, int64_t requested);
void assert_no_event(QTestState *qts);

/* Adds balloon-report/modern/FACT and balloon-report/legacy/FACT. */
void add_transports(const char *fact, void (*test)(const void *));

#endif
