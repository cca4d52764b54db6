/*
 * run and check-config
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <stdio.h>

#include "commands.h"
#include "daemon.h"

int command_run(const Command *command, int argc, char **argv)
{
    DaemonOptions options = { 0 };
    gboolean dry_run = FALSE, verbose = FALSE;
    const GOptionEntry entries[] = {
        { "dry-run", 'n', 0, G_OPTION_ARG_NONE, &dry_run,
          "look at everything, send nothing, log what would be sent", NULL },
        { "verbose", 'v', 0, G_OPTION_ARG_NONE, &verbose,
          "log every request, in the order of sending; renewals are none", NULL },
        G_OPTION_ENTRY_NULL
    };
    int status;

    if (!command_parse(command, &argc, &argv, entries, 0, 0, &status)) {
        return status;
    }
    options.verbose = verbose;
    options.config_file = command_config_file();
    options.dry_run = dry_run;
    return daemon_run(&options);
}

static void print_policy(const Config *config)
{
    printf("[policy]\n");
    for (size_t i = 0; i < policy_config_keys_count; i++) {
        const PolicyConfigKey *key = &policy_config_keys[i];
        uint32_t value = *(const uint32_t *)((const char *)&config->policy + key->offset);

        printf("%s = %u%s\n", key->key, value,
               value == key->standard ? "" : "  (changed)");
    }
}

int command_check_config(const Command *command, int argc, char **argv)
{
    gboolean print = FALSE;
    const GOptionEntry entries[] = { { "print", 'p', 0, G_OPTION_ARG_NONE, &print,
                                       "all values of [policy] that are in force", NULL },
                                     G_OPTION_ENTRY_NULL };
    g_autoptr(Config) config = NULL;
    g_autoptr(GError) error = NULL;
    int status;

    if (!command_parse(command, &argc, &argv, entries, 0, 1, &status)) {
        return status;
    }
    config = config_load(argc == 2 ? argv[1] : command_config_file(), &error);
    if (!config) {
        return command_fail("%s", error->message);
    }
    for (guint i = 0; i < config->files->len; i++) {
        printf("read: %s\n", (const char *)config->files->pdata[i]);
    }
    for (guint i = 0; i < config->warnings->len; i++) {
        printf("warning: %s\n", (const char *)config->warnings->pdata[i]);
    }
    if (print) {
        print_policy(config);
    }
    printf("the configuration is good%s\n",
           config->files->len ? "" : ": no file, standard values");
    return 0;
}
