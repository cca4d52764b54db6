/*
 * HMP commands of the balloon's report delay
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "monitor/hmp.h"
#include "monitor/monitor.h"
#include "qapi/error.h"
#include "qapi/qapi-commands-balloon-report.h"
#include "qobject/qdict.h"

void hmp_balloon_report_delay(Monitor *mon, const QDict *qdict)
{
    bool has_ms = qdict_haskey(qdict, "ms");
    int64_t ms = qdict_get_try_int(qdict, "ms", 0);
    Error *err = NULL;

    if (ms < 0 || ms > UINT32_MAX) {
        error_setg(&err, "'ms' is %" PRId64 ", it must be 0 to 600000", ms);
    } else {
        qmp_balloon_set_report_delay(has_ms, ms, false, 0, &err);
    }
    hmp_handle_error(mon, err);
}

static void print_ms(Monitor *mon, const char *what, bool has, uint32_t ms)
{
    if (has) {
        monitor_printf(mon, "%s: %u ms\n", what, ms);
    } else {
        monitor_printf(mon, "%s: none\n", what);
    }
}

void hmp_info_balloon_report_delay(Monitor *mon, const QDict *qdict)
{
    g_autoptr(BalloonReportDelayInfo) info = NULL;
    Error *err = NULL;

    info = qmp_query_balloon_report_delay(&err);
    if (hmp_handle_error(mon, err)) {
        return;
    }

    monitor_printf(mon, "offered: %s\n", info->offered ? "yes" : "no");
    monitor_printf(mon, "negotiated: %s\n", info->negotiated ? "yes" : "no");
    print_ms(mon, "requested", info->has_requested_ms, info->requested_ms);
    print_ms(mon, "applied", info->has_applied_ms, info->applied_ms);
    print_ms(mon, "lease left", info->has_lease_left_ms, info->lease_left_ms);
    monitor_printf(mon, "inhibited: %s\n", info->inhibited ? "yes" : "no");
    monitor_printf(mon, "reports: %" PRIu64 "\n", info->reports);
    monitor_printf(mon, "reported: %" PRIu64 " bytes\n", info->reported_bytes);
    monitor_printf(mon, "discarded: %" PRIu64 " bytes\n",
                   info->discarded_bytes);
}
