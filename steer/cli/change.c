/*
 * set, withdraw, pin and unpin: changing something
 *
 * With a daemon, it does it, and leaves the VM alone for that long.  Without
 * one, the command goes to QEMU from here; the lock is held meanwhile, so that
 * no daemon starts in the middle of it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "client.h"
#include "commands.h"
#include "control.h"
#include "direct.h"
#include "lock.h"

/* set and withdraw: what an operator looks at takes some minutes. */
#define HOLD_S 300

#define LEASE_S_MAX (GUEST_LEASE_MS_MAX / 1000)

static int through_daemon(Connection *connection, const char *command, const char *vm,
                          const char *more)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(JsonNode) answer = connection_ask(connection, command, vm, more, &error);

    return answer ? 0 : command_fail("%s", error->message);
}

static int directly(const char *vm, const GuestCommand *command)
{
    g_autoptr(Config) config = command_config();
    g_autoptr(GError) error = NULL;
    unsigned int done, failed;
    int lock;

    if (!config) {
        return 1;
    }
    lock = lock_take(config->lock_file, &error);
    if (lock < 0) {
        return command_fail("%s", error->message);
    }
    done = direct_command(config, vm, command, &failed);
    close(lock);
    if (vm && !done && !failed) {
        return command_fail("there is no VM '%s'", vm);
    }
    return failed ? 1 : 0;
}

/* The daemon's connection, or NULL: none runs, or *@status says it failed. */
static Connection *connect_daemon(int *status)
{
    g_autofree char *control = command_control();
    g_autoptr(GError) error = NULL;
    Connection *connection;

    *status = 1;
    if (!control) {
        return NULL;
    }
    connection = connection_new(control, &error);
    if (connection || connection_no_daemon(error)) {
        *status = 0;
    } else {
        command_fail("%s", error->message);
    }
    return connection;
}

static int pin_through_daemon(Connection *connection, const char *vm, uint64_t delay_ms,
                              uint64_t for_s)
{
    g_autofree char *more =
        g_strdup_printf("\"delay-ms\":%" PRIu64 ",\"for-s\":%" PRIu64, delay_ms, for_s);

    return through_daemon(connection, "pin", vm, more);
}

int command_set(const Command *command, int argc, char **argv)
{
    g_autofree char *lease = NULL;
    const GOptionEntry entries[] = {
        { "lease", 'l', 0, G_OPTION_ARG_STRING, &lease,
          "withdrawn after this time (5 minutes with a daemon, "
          "else never)",
          "S" },
        G_OPTION_ENTRY_NULL
    };
    g_autoptr(Connection) connection = NULL;
    uint64_t delay_ms, lease_s = 0;
    int status;

    if (!command_parse(command, &argc, &argv, entries, 2, 2, &status)) {
        return status;
    }
    if (!command_number("delay in ms", argv[2], GUEST_DELAY_MS_MAX, &delay_ms) ||
        (lease && !command_duration("lease", lease, LEASE_S_MAX, &lease_s))) {
        return STATUS_USAGE;
    }
    connection = connect_daemon(&status);
    if (status) {
        return status;
    }
    if (connection) {
        return pin_through_daemon(connection, argv[1], delay_ms,
                                  lease ? lease_s : HOLD_S);
    }
    return directly(argv[1], &(GuestCommand){
                                 .op = GUEST_OP_SET,
                                 .delay_ms = delay_ms,
                                 .lease_ms = lease_s * 1000,
                             });
}

int command_pin(const Command *command, int argc, char **argv)
{
    g_autofree char *time = NULL;
    const GOptionEntry entries[] = { { "for", 'f', 0, G_OPTION_ARG_STRING, &time,
                                       "how long, such as 90s, 10m or 2h", "T" },
                                     G_OPTION_ENTRY_NULL };
    g_autoptr(Connection) connection = NULL;
    uint64_t delay_ms, for_s;
    int status;

    if (!command_parse(command, &argc, &argv, entries, 2, 2, &status)) {
        return status;
    }
    if (!time) {
        command_fail("pin: --for is missing: a pin has an end");
        return STATUS_USAGE;
    }
    if (!command_number("delay in ms", argv[2], GUEST_DELAY_MS_MAX, &delay_ms) ||
        !command_duration("--for", time, CONTROL_PIN_S_MAX, &for_s)) {
        return STATUS_USAGE;
    }
    connection = connect_daemon(&status);
    if (connection) {
        return pin_through_daemon(connection, argv[1], delay_ms, for_s);
    }
    return status ? status
                  : command_fail("a pin is the daemon's, "
                                 "and no daemon is running");
}

int command_unpin(const Command *command, int argc, char **argv)
{
    g_autoptr(Connection) connection = NULL;
    int status;

    if (!command_parse(command, &argc, &argv, NULL, 1, 1, &status)) {
        return status;
    }
    connection = connect_daemon(&status);
    if (connection) {
        return through_daemon(connection, "unpin", argv[1], NULL);
    }
    return status ? status : command_fail("no daemon is running");
}

static int withdraw_all(Connection *connection, const char *more)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(JsonNode) answer = connection_ask(connection, "status", NULL, NULL, &error);
    JsonArray *vms;
    int status = 0;

    if (!answer) {
        return command_fail("%s", error->message);
    }
    vms = json_object_get_array_member(json_node_get_object(answer), "vms");
    for (guint i = 0; i < json_array_get_length(vms); i++) {
        JsonObject *vm = json_array_get_object_element(vms, i);

        status |= through_daemon(connection, "withdraw",
                                 json_object_get_string_member(vm, "name"), more);
    }
    return status;
}

int command_withdraw(const Command *command, int argc, char **argv)
{
    gboolean all = FALSE;
    g_autofree char *time = NULL;
    const GOptionEntry entries[] = {
        { "all", 'a', 0, G_OPTION_ARG_NONE, &all, "every VM", NULL },
        { "for", 'f', 0, G_OPTION_ARG_STRING, &time,
          "how long the daemon leaves it alone (5 minutes)", "T" },
        G_OPTION_ENTRY_NULL
    };
    g_autoptr(Connection) connection = NULL;
    g_autofree char *more = NULL;
    uint64_t for_s = HOLD_S;
    int status;

    if (!command_parse(command, &argc, &argv, entries, 0, 1, &status)) {
        return status;
    }
    if (all == (argc == 2)) {
        command_fail("usage: balloon-steer withdraw VM | --all");
        return STATUS_USAGE;
    }
    if (time && !command_duration("--for", time, CONTROL_PIN_S_MAX, &for_s)) {
        return STATUS_USAGE;
    }
    connection = connect_daemon(&status);
    if (status) {
        return status;
    }
    if (!connection) {
        return directly(all ? NULL : argv[1], &(GuestCommand){
                                                  .op = GUEST_OP_WITHDRAW,
                                              });
    }
    more = g_strdup_printf("\"for-s\":%" PRIu64, for_s);
    return all ? withdraw_all(connection, more)
               : through_daemon(connection, "withdraw", argv[1], more);
}
