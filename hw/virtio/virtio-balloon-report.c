/*
 * virtio-balloon: free page reporting at a delay that the host chooses
 *
 * The device asks the guest for a report delay in the config field
 * report_delay_ms; the driver answers with what is in force in
 * report_delay_applied_ms.  Request and lease are owned by
 * report_set_request(), and outlive resets of the guest; the answer is the
 * driver's and ends with it.
 *
 * All of this runs under the BQL.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/bitops.h"
#include "qemu/error-report.h"
#include "qemu/iov.h"
#include "qemu/timer.h"
#include "qapi/error.h"
#include "qapi/qapi-commands-balloon-report.h"
#include "qapi/qapi-commands-machine.h"
#include "qapi/qapi-events-balloon-report.h"
#include "qapi/visitor.h"
#include "hw/qdev-core.h"
#include "hw/virtio/virtio-balloon.h"
#include "migration/vmstate.h"
#include "trace.h"

#define DELAY_NONE VIRTIO_BALLOON_REPORT_DELAY_NONE
#define DELAY_PROPERTY "report-delay-ms"

QEMU_BUILD_BUG_ON(offsetof(struct virtio_balloon_config,
                           report_delay_ms) != 16);
QEMU_BUILD_BUG_ON(offsetof(struct virtio_balloon_config,
                           report_delay_applied_ms) != 20);

/* The realized device.  The balloon handler admits one a machine. */
static VirtIOBalloon *report_device;

static bool report_offered(const VirtIOBalloon *s)
{
    return virtio_has_feature(s->host_features, VIRTIO_BALLOON_F_REPORT_DELAY);
}

static bool report_negotiated(VirtIOBalloon *s)
{
    VirtIODevice *vdev = VIRTIO_DEVICE(s);

    return virtio_vdev_has_feature(vdev, VIRTIO_BALLOON_F_REPORT_DELAY) &&
           virtio_vdev_has_feature(vdev, VIRTIO_BALLOON_F_REPORTING);
}

/* The driver's answer in milliseconds, or DELAY_NONE. */
static uint32_t report_applied_ms(const VirtIOBalloonReport *r)
{
    return r->applied_raw <= VIRTIO_BALLOON_REPORT_DELAY_MS_MAX ?
           r->applied_raw : DELAY_NONE;
}

/*
 * The transport keeps config bytes of its own, and a write to any field hands
 * all of them to set_config.  What is there of ours must never be older than
 * our state, or the write of another field would bring it back.
 */
static void report_sync_config(VirtIOBalloon *s)
{
    VirtIODevice *vdev = VIRTIO_DEVICE(s);

    if (report_offered(s)) {
        stl_le_p((uint8_t *)vdev->config +
                 offsetof(struct virtio_balloon_config,
                          report_delay_applied_ms),
                 s->report.applied_raw);
    }
}

static void report_forget_answer(VirtIOBalloon *s)
{
    s->report.applied_raw = DELAY_NONE;
    s->report.announced_ms = DELAY_NONE;
    report_sync_config(s);
}

/*
 * The one owner of request and lease.
 * @delay_ms: in range, or DELAY_NONE to withdraw
 * @lease_ms: in range, or 0 for none
 */
static void report_set_request(VirtIOBalloon *s, uint32_t delay_ms,
                               uint32_t lease_ms)
{
    VirtIOBalloonReport *r = &s->report;

    trace_virtio_balloon_report_delay_set((int32_t)delay_ms, lease_ms);

    if (lease_ms) {
        timer_mod(r->lease_timer,
                  qemu_clock_get_ms(QEMU_CLOCK_REALTIME) + lease_ms);
    } else {
        timer_del(r->lease_timer);
    }

    /* Asked again: for a lease.  The guest has its answer, leave it alone. */
    if (delay_ms == r->requested_ms) {
        return;
    }

    r->requested_ms = delay_ms;
    report_forget_answer(s);
    virtio_notify_config(VIRTIO_DEVICE(s));
}

static void report_lease_end(void *opaque)
{
    trace_virtio_balloon_report_delay_lease_end();
    report_set_request(opaque, DELAY_NONE, 0);
}

static uint32_t report_lease_left_ms(const VirtIOBalloonReport *r)
{
    int64_t left;

    if (!r->lease_timer || !timer_pending(r->lease_timer)) {
        return 0;
    }
    left = timer_expire_time_ns(r->lease_timer) / SCALE_MS -
           qemu_clock_get_ms(QEMU_CLOCK_REALTIME);
    /* One that is about to fire still runs. */
    return MAX(left, 1);
}

static bool report_check_offered(const VirtIOBalloon *s, Error **errp)
{
    if (!report_offered(s)) {
        error_setg(errp, "The balloon does not offer its report delay: "
                   "start it with 'report-delay=on'");
        return false;
    }
    return true;
}

/* Config space */

void virtio_balloon_report_get_config(const VirtIOBalloon *s,
                                      struct virtio_balloon_config *conf)
{
    conf->report_delay_ms = cpu_to_le32(s->report.requested_ms);
    conf->report_delay_applied_ms = cpu_to_le32(s->report.applied_raw);
}

/*
 * What a legacy driver's write has made of the field.
 *
 * Such a driver writes byte by byte, the lowest first, and each byte comes
 * here as a write of its own.  So when a single byte changes, those above it
 * are still to be written: they become 0xff, and no mixture of two values is
 * in range before the highest byte is there.
 */
static uint32_t report_legacy_write(uint32_t old, uint32_t new)
{
    unsigned int byte = ctz32(old ^ new) / 8;

    if (byte == 3 || (old ^ new) >> (8 * byte) > 0xff) {
        return new;
    }
    return deposit32(new, 8 * (byte + 1), 24 - 8 * byte, -1);
}

void virtio_balloon_report_set_config(VirtIOBalloon *s,
                                      const struct virtio_balloon_config *conf)
{
    VirtIOBalloonReport *r = &s->report;
    uint32_t raw, applied_ms;

    if (!report_offered(s)) {
        return;
    }

    raw = le32_to_cpu(conf->report_delay_applied_ms);
    if (raw != r->applied_raw && report_negotiated(s)) {
        if (!virtio_vdev_has_feature(VIRTIO_DEVICE(s), VIRTIO_F_VERSION_1)) {
            raw = report_legacy_write(r->applied_raw, raw);
        }
        r->applied_raw = raw;
    }
    report_sync_config(s);

    applied_ms = report_applied_ms(r);
    if (applied_ms == DELAY_NONE || applied_ms == r->announced_ms) {
        return;
    }
    r->announced_ms = applied_ms;
    trace_virtio_balloon_report_delay_applied(applied_ms,
                                              (int32_t)r->requested_ms);
    qapi_event_send_balloon_report_delay_change(applied_ms,
                                                r->requested_ms != DELAY_NONE,
                                                r->requested_ms);
}

void virtio_balloon_report_count(VirtIOBalloon *s, const VirtQueueElement *elem,
                                 uint64_t discarded)
{
    uint64_t bytes = iov_size(elem->in_sg, elem->in_num);

    s->report.reports++;
    s->report.reported_bytes += bytes;
    s->report.discarded_bytes += discarded;
    trace_virtio_balloon_report(elem->in_num, bytes, bytes - discarded);
}

/* The property report-delay-ms */

static void report_get_delay(Object *obj, Visitor *v, const char *name,
                             void *opaque, Error **errp)
{
    VirtIOBalloon *s = VIRTIO_BALLOON(obj);
    int64_t value = -1;

    if (s->report.requested_ms != DELAY_NONE) {
        value = s->report.requested_ms;
    }
    visit_type_int(v, name, &value, errp);
}

static void report_set_delay(Object *obj, Visitor *v, const char *name,
                             void *opaque, Error **errp)
{
    VirtIOBalloon *s = VIRTIO_BALLOON(obj);
    int64_t value;
    uint32_t delay_ms;

    if (!visit_type_int(v, name, &value, errp)) {
        return;
    }
    if (value < -1 || value > VIRTIO_BALLOON_REPORT_DELAY_MS_MAX) {
        error_setg(errp, "'%s' is %" PRId64 ", it must be 0 to %d milliseconds,"
                   " or -1 for no request", name, value,
                   VIRTIO_BALLOON_REPORT_DELAY_MS_MAX);
        return;
    }
    delay_ms = value == -1 ? DELAY_NONE : value;

    if (!DEVICE(obj)->realized) {
        /* Whether it may be given is for realize to say. */
        s->report.requested_ms = delay_ms;
    } else if (report_check_offered(s, errp)) {
        report_set_request(s, delay_ms, 0);
    }
}

void virtio_balloon_report_class_init(ObjectClass *klass)
{
    object_class_property_add(klass, DELAY_PROPERTY, "int",
                              report_get_delay, report_set_delay, NULL, NULL);
    object_class_property_set_description(klass, DELAY_PROPERTY,
        "Delay of free page reporting that the guest is asked for, "
        "0 to 600000 milliseconds; -1: no request");
}

/* Life of the device */

void virtio_balloon_report_init(VirtIOBalloon *s)
{
    s->report.requested_ms = DELAY_NONE;
    s->report.applied_raw = DELAY_NONE;
    s->report.announced_ms = DELAY_NONE;
}

bool virtio_balloon_report_check(VirtIOBalloon *s, Error **errp)
{
    if (report_offered(s) &&
        !virtio_has_feature(s->host_features, VIRTIO_BALLOON_F_REPORTING)) {
        error_setg(errp,
                   "'report-delay=on' requires 'free-page-reporting=on'");
        return false;
    }
    if (!report_offered(s) && s->report.requested_ms != DELAY_NONE) {
        error_setg(errp, "'" DELAY_PROPERTY "' requires 'report-delay=on'");
        return false;
    }
    return true;
}

void virtio_balloon_report_realize(VirtIOBalloon *s)
{
    s->report.lease_timer = timer_new_ms(QEMU_CLOCK_REALTIME,
                                         report_lease_end, s);
    report_sync_config(s);
    report_device = s;
}

void virtio_balloon_report_unrealize(VirtIOBalloon *s)
{
    report_device = NULL;
    timer_free(s->report.lease_timer);
    s->report.lease_timer = NULL;
}

void virtio_balloon_report_reset(VirtIOBalloon *s)
{
    report_forget_answer(s);
}

/* Migration */

/* Also without a request: that must replace the target's start value, too. */
static bool report_delay_needed(void *opaque)
{
    return report_offered(opaque);
}

static int report_delay_pre_save(void *opaque)
{
    VirtIOBalloon *s = opaque;

    s->report.lease_left_ms = report_lease_left_ms(&s->report);
    return 0;
}

static int report_delay_post_load(void *opaque, int version_id)
{
    VirtIOBalloon *s = opaque;
    VirtIOBalloonReport *r = &s->report;

    if (!report_offered(s)) {
        error_report("virtio-balloon: the migration stream has a report delay: "
                     "start the target with 'report-delay=on'");
        return -EINVAL;
    }
    if (r->requested_ms > VIRTIO_BALLOON_REPORT_DELAY_MS_MAX &&
        r->requested_ms != DELAY_NONE) {
        error_report("virtio-balloon: a report delay of %u ms in the migration "
                     "stream is not in 0 to %d", r->requested_ms,
                     VIRTIO_BALLOON_REPORT_DELAY_MS_MAX);
        return -EINVAL;
    }
    if (r->lease_left_ms > (r->requested_ms == DELAY_NONE ? 0 :
                            VIRTIO_BALLOON_REPORT_LEASE_MS_MAX)) {
        error_report("virtio-balloon: a report delay lease of %u ms in the "
                     "migration stream is not in 0 to %d, or without a request",
                     r->lease_left_ms, VIRTIO_BALLOON_REPORT_LEASE_MS_MAX);
        return -EINVAL;
    }

    /* The guest knows the request and has answered it: tell nobody again. */
    report_set_request(s, r->requested_ms, r->lease_left_ms);
    r->announced_ms = report_applied_ms(r);
    report_sync_config(s);
    return 0;
}

const VMStateDescription vmstate_virtio_balloon_report_delay = {
    .name = "virtio-balloon-device/report-delay",
    .version_id = 1,
    .minimum_version_id = 1,
    .needed = report_delay_needed,
    .pre_save = report_delay_pre_save,
    .post_load = report_delay_post_load,
    .fields = (const VMStateField[]) {
        VMSTATE_UINT32(report.requested_ms, VirtIOBalloon),
        VMSTATE_UINT32(report.applied_raw, VirtIOBalloon),
        VMSTATE_UINT32(report.lease_left_ms, VirtIOBalloon),
        VMSTATE_END_OF_LIST()
    },
};

/* QMP */

static VirtIOBalloon *report_find_device(Error **errp)
{
    g_autoptr(BalloonInfo) other = NULL;

    if (report_device) {
        return report_device;
    }

    /* Says that there is no balloon, in the words of `balloon`. */
    other = qmp_query_balloon(errp);
    if (other) {
        error_set(errp, ERROR_CLASS_DEVICE_NOT_ACTIVE,
                  "The machine's balloon is not a virtio-balloon, "
                  "it has no report delay");
    }
    return NULL;
}

void qmp_balloon_set_report_delay(bool has_delay_ms, uint32_t delay_ms,
                                  bool has_lease_ms, uint32_t lease_ms,
                                  Error **errp)
{
    VirtIOBalloon *s = report_find_device(errp);

    if (!s || !report_check_offered(s, errp)) {
        return;
    }
    if (has_delay_ms && delay_ms > VIRTIO_BALLOON_REPORT_DELAY_MS_MAX) {
        error_setg(errp, "'delay-ms' is %u, it must be 0 to %d milliseconds",
                   delay_ms, VIRTIO_BALLOON_REPORT_DELAY_MS_MAX);
        return;
    }
    if (has_lease_ms && !has_delay_ms) {
        error_setg(errp, "'lease-ms' requires 'delay-ms'");
        return;
    }
    if (has_lease_ms &&
        (lease_ms < 1 || lease_ms > VIRTIO_BALLOON_REPORT_LEASE_MS_MAX)) {
        error_setg(errp, "'lease-ms' is %u, it must be 1 to %d milliseconds",
                   lease_ms, VIRTIO_BALLOON_REPORT_LEASE_MS_MAX);
        return;
    }

    report_set_request(s, has_delay_ms ? delay_ms : DELAY_NONE,
                       has_lease_ms ? lease_ms : 0);
}

BalloonReportDelayInfo *qmp_query_balloon_report_delay(Error **errp)
{
    VirtIOBalloon *s = report_find_device(errp);
    VirtIOBalloonReport *r;
    BalloonReportDelayInfo *info;

    if (!s) {
        return NULL;
    }

    r = &s->report;
    info = g_new0(BalloonReportDelayInfo, 1);
    info->offered = report_offered(s);
    info->negotiated = report_negotiated(s);
    info->requested_ms = r->requested_ms;
    info->has_requested_ms = r->requested_ms != DELAY_NONE;
    info->applied_ms = report_applied_ms(r);
    info->has_applied_ms = info->negotiated && info->applied_ms != DELAY_NONE;
    info->lease_left_ms = report_lease_left_ms(r);
    info->has_lease_left_ms = info->lease_left_ms > 0;
    info->inhibited = virtio_balloon_discard_inhibited(s);
    info->reports = r->reports;
    info->reported_bytes = r->reported_bytes;
    info->discarded_bytes = r->discarded_bytes;
    return info;
}
