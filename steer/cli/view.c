/*
 * The daemon's answers as a person reads them, in 80 columns
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <string.h>

#include "view.h"

/* Of a table's line, all but the name. */
#define FIXED_COLUMNS 63
#define COLUMNS_MIN 80

char *view_ms(int64_t ms)
{
    if (ms < 1000) {
        return g_strdup_printf("%" G_GINT64_FORMAT " ms", ms);
    }
    if (ms < 10000 && ms % 1000) {
        return g_strdup_printf("%" G_GINT64_FORMAT ".%" G_GINT64_FORMAT " s", ms / 1000,
                               ms % 1000 / 100);
    }
    if (ms < 600 * 1000) {
        return g_strdup_printf("%" G_GINT64_FORMAT " s", ms / 1000);
    }
    if (ms < 600 * 60 * 1000) {
        return g_strdup_printf("%" G_GINT64_FORMAT " min", ms / 60000);
    }
    return g_strdup_printf("%" G_GINT64_FORMAT " h", ms / 3600000);
}

char *view_bytes(int64_t bytes)
{
    static const char units[] = "KMGTPE";
    double value = bytes;
    int unit = -1;

    while (value >= 999.5 && unit < 5) {
        value /= 1024;
        unit++;
    }
    if (unit < 0) {
        return g_strdup_printf("%" G_GINT64_FORMAT " B", bytes);
    }
    return g_strdup_printf(value < 9.95 ? "%.1f %c" : "%.0f %c", value, units[unit]);
}

static int64_t number(JsonObject *object, const char *name)
{
    return json_object_get_int_member_with_default(object, name, -1);
}

static const char *text(JsonObject *object, const char *name)
{
    return json_object_get_string_member_with_default(object, name, "?");
}

static bool yes(JsonObject *object, const char *name)
{
    return json_object_get_boolean_member_with_default(object, name, FALSE);
}

static char *ms_of(JsonObject *object, const char *name)
{
    int64_t ms = number(object, name);

    return ms < 0 ? g_strdup("-") : view_ms(ms);
}

static char *bytes_of(JsonObject *object, const char *name)
{
    int64_t bytes = number(object, name);

    return bytes < 0 ? g_strdup("-") : view_bytes(bytes);
}

static void view_host(FILE *out, JsonObject *host)
{
    g_autofree char *since = ms_of(host, "in-state-ms");
    g_autofree char *delay = ms_of(host, "delay-ms");
    g_autofree char *available = bytes_of(host, "available-bytes");
    g_autofree char *usable = bytes_of(host, "usable-bytes");
    g_autofree char *floor = bytes_of(host, "floor-bytes");
    g_autofree char *tte = ms_of(host, "tte-ms");
    g_autofree char *hold = ms_of(host, "hold-left-ms");
    int64_t some = number(host, "psi-some-permille");

    fprintf(out, "%s for %s, because of: %s; delay %s%s%s%s\n", text(host, "state"),
            since, text(host, "reason"), delay,
            yes(host, "exhausted") ? "; exhausted" : "",
            yes(host, "dry-run") ? "; dry run" : "",
            yes(host, "stopping") ? "; stopping" : "");
    if (!yes(host, "readable")) {
        fprintf(out, "memory: cannot be read\n");
    } else {
        fprintf(out, "memory: %s available, %s usable, floor %s", available, usable,
                floor);
        fprintf(out, *tte == '-' ? "\n" : ", lasts %s\n", tte);
    }
    fprintf(out, "PSI: %s, some %" G_GINT64_FORMAT ".%" G_GINT64_FORMAT " %%; ",
            text(host, "psi"), some / 10, some % 10);
    if (g_str_equal(text(host, "state"), "CALM")) {
        fprintf(out, "nothing to relax\n");
    } else if (number(host, "hold-left-ms") > 0) {
        fprintf(out, "relaxes in %s at the earliest\n", hold);
    } else {
        fprintf(out, "kept from relaxing by %s\n", text(host, "held-by"));
    }
}

/* The most backlog first: that is where memory can come from. */
static int compare_vms(gconstpointer a, gconstpointer b)
{
    JsonObject *x = json_node_get_object(*(JsonNode *const *)a);
    JsonObject *y = json_node_get_object(*(JsonNode *const *)b);
    int64_t left = number(x, "backlog-bytes");
    int64_t right = number(y, "backlog-bytes");

    if (left != right) {
        return left < right ? 1 : -1;
    }
    return strcmp(text(x, "name"), text(y, "name"));
}

static void view_vm(FILE *out, JsonObject *vm, int name_columns)
{
    g_autofree char *asked = ms_of(vm, "asked-ms");
    g_autofree char *applied = ms_of(vm, "applied-ms");
    g_autofree char *host = bytes_of(vm, "host-bytes");
    g_autofree char *backlog = bytes_of(vm, "backlog-bytes");
    g_autofree char *rate = bytes_of(vm, "returned-bytes-per-s");
    const char *name = text(vm, "name");
    bool cut = (int)strlen(name) > name_columns;
    int64_t churn = number(vm, "churn-permille") / 10;

    fprintf(out, "%-*.*s%s %7s %7s %7s %7s %7s %4" G_GINT64_FORMAT "%%  %.14s\n",
            cut ? name_columns - 1 : name_columns, cut ? name_columns - 1 : name_columns,
            name, cut ? "~" : "", asked, applied, host, backlog, rate, churn,
            text(vm, "why"));
}

void view_status(FILE *out, JsonObject *status, const ViewOptions *options)
{
    JsonArray *vms = json_object_get_array_member(status, "vms");
    g_autoptr(GPtrArray) sorted = g_ptr_array_new();
    int name_columns = MAX(options->columns, COLUMNS_MIN) - FIXED_COLUMNS;
    guint shown;

    view_host(out, json_object_get_object_member(status, "host"));
    for (guint i = 0; i < json_array_get_length(vms); i++) {
        g_ptr_array_add(sorted, json_array_get_element(vms, i));
    }
    if (!sorted->len) {
        fprintf(out, "\nno VMs\n");
        return;
    }
    g_ptr_array_sort(sorted, compare_vms);
    fprintf(out, "\n%-*s %7s %7s %7s %7s %7s %5s  %s\n", name_columns, "VM", "ASKED",
            "APPLIED", "HOST", "BACKLOG", "BACK/S", "CHURN", "WHY");
    shown = options->rows > 0 ? MIN((guint)options->rows, sorted->len) : sorted->len;
    for (guint i = 0; i < shown; i++) {
        view_vm(out, json_node_get_object(sorted->pdata[i]), name_columns);
    }
    if (shown < sorted->len) {
        fprintf(out, "and %u more\n", sorted->len - shown);
    }
}

/* Explain */

static void explain_why(FILE *out, JsonObject *host, JsonObject *vm)
{
    g_autofree char *wanted = ms_of(vm, "wanted-ms");
    g_autofree char *asked = ms_of(vm, "asked-ms");
    g_autofree char *applied = ms_of(vm, "applied-ms");
    g_autofree char *requested = ms_of(vm, "requested-ms");
    g_autofree char *lease = ms_of(vm, "lease-ms");
    g_autofree char *left = ms_of(vm, "lease-left-ms");
    g_autofree char *age = ms_of(vm, "answer-age-ms");

    fprintf(out, "The host is in %s, because of: %s.\n", text(host, "state"),
            text(host, "reason"));
    if (*wanted == '-') {
        fprintf(out, "It is to have no request, because: %s.\n", text(vm, "why"));
    } else {
        fprintf(out, "It should have a delay of %s, because: %s.\n", wanted,
                text(vm, "why"));
    }
    if (*asked == '-') {
        fprintf(out, "It is asked for nothing.\n");
    } else {
        fprintf(out, "It is asked for %s, with a lease of %s.\n", asked, lease);
    }
    if (number(vm, "answer-age-ms") < 0) {
        fprintf(out, "QEMU has not said yet what it knows.\n");
        return;
    }
    fprintf(out, "QEMU said, %s ago: requested %s, applied %s, lease left %s.\n", age,
            requested, applied, left);
}

static void explain_stage(FILE *out, JsonObject *vm)
{
    if (!yes(vm, "up")) {
        fprintf(out, "It cannot be reached: %s.\n", text(vm, "trouble"));
    } else if (!json_object_has_member(vm, "offered")) {
        return;
    } else if (!yes(vm, "offered")) {
        fprintf(out, "Its balloon does not offer the report delay: start it "
                     "with report-delay=on.\n");
    } else if (!yes(vm, "negotiated")) {
        fprintf(out, "Its guest's driver has not taken the feature: an old "
                     "kernel, or virtio_balloon.report_delay=0.\n");
    } else if (yes(vm, "inhibited")) {
        fprintf(out, "Discards are off in it, so that reports return "
                     "nothing.\n");
    }
    if (g_str_equal(text(vm, "migration"), "yes")) {
        fprintf(out, "It is being migrated: its delay is not shortened.\n");
    }
}

static void explain_memory(FILE *out, JsonObject *vm)
{
    g_autofree char *host = bytes_of(vm, "host-bytes");
    g_autofree char *used = bytes_of(vm, "guest-used-bytes");
    g_autofree char *backlog = bytes_of(vm, "backlog-bytes");
    g_autofree char *reported = bytes_of(vm, "reported-bytes");
    g_autofree char *discarded = bytes_of(vm, "discarded-bytes");
    g_autofree char *churned = bytes_of(vm, "churned-bytes");
    g_autofree char *calm = ms_of(vm, "calm-delay-ms");

    fprintf(out,
            "Memory: %s on the host, %s used as the guest says, "
            "backlog %s.\n",
            host, used, backlog);
    fprintf(out,
            "Reported %s, discarded %s, taken back soon %s; churn of "
            "late %" G_GINT64_FORMAT " %%.\n",
            reported, discarded, churned, number(vm, "churn-permille") / 10);
    fprintf(out, "Its delay in CALM is %s now; weight %" G_GINT64_FORMAT ".\n", calm,
            number(vm, "weight"));
}

static void explain_holds(FILE *out, JsonObject *vm)
{
    g_autofree char *pin = ms_of(vm, "pin-ms");
    g_autofree char *pin_left = ms_of(vm, "pin-left-ms");
    g_autofree char *rest = ms_of(vm, "rest-left-ms");
    g_autofree char *back_off = ms_of(vm, "back-off-ms");

    if (number(vm, "pin-left-ms") >= 0) {
        fprintf(out,
                *pin == '-' ? "Withdrawn by an operator, %s%s left.\n"
                            : "Pinned at %s by an operator, %s left.\n",
                *pin == '-' ? "" : pin, pin_left);
    }
    if (number(vm, "rest-left-ms") >= 0) {
        fprintf(out,
                "A short delay brought next to nothing: it is left alone "
                "for %s more.\n",
                rest);
    }
    if (number(vm, "back-off-ms") > 0) {
        fprintf(out,
                "Its last command failed or had no answer: %s between "
                "attempts.\n",
                back_off);
    }
    if (!json_object_get_boolean_member_with_default(vm, "steer", TRUE)) {
        fprintf(out, "The configuration says steer = no.\n");
    }
}

void view_explain(FILE *out, JsonObject *explain)
{
    JsonObject *host = json_object_get_object_member(explain, "host");
    JsonObject *vm = json_object_get_object_member(explain, "vm");
    int64_t pid = number(vm, "pid");

    fprintf(out, "%s, by %s", text(vm, "name"), text(vm, "backend"));
    if (pid > 0) {
        fprintf(out, ", process %" G_GINT64_FORMAT, pid);
    }
    fprintf(out, "\n");
    explain_why(out, host, vm);
    explain_stage(out, vm);
    explain_holds(out, vm);
    explain_memory(out, vm);
}
