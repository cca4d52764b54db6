/*
 * balloon-steer: one program, many commands
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "backends.h"
#include "commands.h"

static const Command commands[] = {
    { "run", "[--dry-run]", "steer until SIGTERM: the daemon", command_run },
    { "status", "[--json]", "the host and all VMs, once", command_status },
    { "top", "[--delay S]", "the same, again and again", command_top },
    { "explain", "VM", "why a VM is asked for what it is", command_explain },
    { "set", "VM MS [--lease S]", "ask a VM for a delay once", command_set },
    { "withdraw", "VM | --all", "give a VM its own delay back", command_withdraw },
    { "pin", "VM MS --for T", "keep a VM at a delay for a time", command_pin },
    { "unpin", "VM", "end a pin, a set or a withdrawal", command_unpin },
    { "record", "FILE", "write what the daemon sees, as a trace", command_record },
    { "simulate", "TRACE", "what the daemon would have done", command_simulate },
    { "check-config", "[FILE]", "read the configuration, say what is wrong",
      command_check_config },
};

static void usage(FILE *out)
{
    fprintf(out,
            "balloon-steer %s: choose how soon guests hand memory back\n\n"
            "usage: balloon-steer COMMAND ...\n\n",
            STEER_VERSION);
    for (gsize i = 0; i < G_N_ELEMENTS(commands); i++) {
        fprintf(out, "  %-12s %-20s %s\n", commands[i].name, commands[i].arguments,
                commands[i].help);
    }
    fprintf(out, "\nballoon-steer COMMAND --help tells the options; "
                 "balloon-steer(1) tells the rest.\n");
}

int main(int argc, char **argv)
{
    setlocale(LC_ALL, "");
    if (argc < 2) {
        usage(stderr);
        return STATUS_USAGE;
    }
    for (gsize i = 0; i < G_N_ELEMENTS(commands); i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            return backends_end(commands[i].run(&commands[i], argc - 1, argv + 1));
        }
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("balloon-steer %s\n", STEER_VERSION);
        return 0;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        usage(stdout);
        return 0;
    }
    fprintf(stderr,
            "balloon-steer: there is no command '%s', "
            "see balloon-steer --help\n",
            argv[1]);
    return STATUS_USAGE;
}
