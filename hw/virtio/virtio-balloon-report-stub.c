/*
 * The report delay's commands in a target that has no virtio-balloon
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qapi/qapi-commands-balloon-report.h"

static void no_balloon(Error **errp)
{
    error_set(errp, ERROR_CLASS_DEVICE_NOT_ACTIVE,
              "This QEMU was built without virtio-balloon");
}

void qmp_balloon_set_report_delay(bool has_delay_ms, uint32_t delay_ms,
                                  bool has_lease_ms, uint32_t lease_ms,
                                  Error **errp)
{
    no_balloon(errp);
}

BalloonReportDelayInfo *qmp_query_balloon_report_delay(Error **errp)
{
    no_balloon(errp);
    return NULL;
}
