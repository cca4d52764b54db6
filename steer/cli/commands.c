/*
 * What the commands have in common
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "scan.h"

static char *config_file, *control_path;

int command_fail(const char *format, ...)
{
    g_autofree char *text = NULL;
    va_list arguments;

    va_start(arguments, format);
    text = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    fprintf(stderr, "balloon-steer: %s\n", text);
    return 1;
}

bool command_parse(const Command *command, int *argc, char ***argv,
                   const GOptionEntry *entries, int arguments_min, int arguments_max,
                   int *status)
{
    const GOptionEntry common[] = {
        { "config", 'c', 0, G_OPTION_ARG_FILENAME, &config_file,
          "read this file alone, without drop-ins", "FILE" },
        { "control", 0, 0, G_OPTION_ARG_FILENAME, &control_path,
          "the daemon's control socket", "PATH" },
        G_OPTION_ENTRY_NULL
    };
    g_autofree char *words = NULL;
    g_autoptr(GOptionContext) context = NULL;
    g_autoptr(GError) error = NULL;
    int given;

    words = g_strdup_printf("%s - %s", command->arguments, command->help);
    context = g_option_context_new(words);
    if (entries) {
        g_option_context_add_main_entries(context, entries, NULL);
    }
    g_option_context_add_main_entries(context, common, NULL);
    *status = STATUS_USAGE;
    if (!g_option_context_parse(context, argc, argv, &error)) {
        command_fail("%s: %s", command->name, error->message);
        return false;
    }
    /* "--" ends the options, and stays. */
    if (*argc > 1 && strcmp((*argv)[1], "--") == 0) {
        memmove(*argv + 1, *argv + 2, (*argc - 1) * sizeof(**argv));
        (*argc)--;
    }
    given = *argc - 1;
    if (given < arguments_min || given > arguments_max) {
        command_fail("usage: balloon-steer %s %s", command->name, command->arguments);
        return false;
    }
    return true;
}

const char *command_config_file(void)
{
    return config_file;
}

Config *command_config(void)
{
    g_autoptr(GError) error = NULL;
    Config *config = config_load(config_file, &error);

    if (!config) {
        command_fail("%s", error->message);
    }
    return config;
}

char *command_control(void)
{
    g_autoptr(Config) config = NULL;

    if (control_path) {
        return g_strdup(control_path);
    }
    config = command_config();
    return config ? g_strdup(config->control_socket) : NULL;
}

bool command_number(const char *what, const char *text, uint64_t max, uint64_t *value)
{
    Span word = { text, strlen(text) };

    if (scan_number(word, value) && *value <= max) {
        return true;
    }
    command_fail("%s '%s': must be a whole number from 0 to %" PRIu64, what, text, max);
    return false;
}

bool command_duration(const char *what, const char *text, uint64_t max_s,
                      uint64_t *seconds)
{
    static const struct {
        char unit;
        uint64_t seconds;
    } units[] = { { 's', 1 }, { 'm', 60 }, { 'h', 3600 }, { 'd', 86400 } };
    Span word = { text, strlen(text) };
    uint64_t factor = 1;

    for (gsize i = 0; word.length && i < G_N_ELEMENTS(units); i++) {
        if (word.at[word.length - 1] == units[i].unit) {
            factor = units[i].seconds;
            word.length--;
            break;
        }
    }
    if (scan_number(word, seconds) &&
        !__builtin_mul_overflow(*seconds, factor, seconds) && *seconds &&
        *seconds <= max_s) {
        return true;
    }
    command_fail("%s '%s': must be a time such as 90s, 10m or 2h, at most %" PRIu64 " s",
                 what, text, max_s);
    return false;
}
