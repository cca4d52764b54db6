/*
 * status, top and explain: looking
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "client.h"
#include "commands.h"
#include "view.h"

static JsonNode *ask(const char *control, const char *command, const char *vm)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(Connection) connection = connection_new(control, &error);
    JsonNode *answer = NULL;

    if (connection) {
        answer = connection_ask(connection, command, vm, NULL, &error);
    }
    if (answer) {
        return answer;
    }
    if (!connection && connection_no_daemon(error)) {
        command_fail("no daemon is running (%s)", error->message);
    } else {
        command_fail("%s", error->message);
    }
    return NULL;
}

/* The terminal's, or none if there is no terminal. */
static ViewOptions terminal(void)
{
    struct winsize size;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 8) {
        /* Four lines above the VMs, one below them. */
        return (ViewOptions){ size.ws_row - 6, size.ws_col };
    }
    return (ViewOptions){ 0, 0 };
}

static void print_json(JsonNode *node)
{
    g_autoptr(JsonGenerator) generator = json_generator_new();
    g_autofree char *text = NULL;

    json_generator_set_pretty(generator, TRUE);
    json_generator_set_root(generator, node);
    text = json_generator_to_data(generator, NULL);
    puts(text);
}

int command_status(const Command *command, int argc, char **argv)
{
    gboolean json = FALSE;
    const GOptionEntry entries[] = { { "json", 'j', 0, G_OPTION_ARG_NONE, &json,
                                       "for programs", NULL },
                                     G_OPTION_ENTRY_NULL };
    ViewOptions all = { 0, terminal().columns };
    g_autofree char *control = NULL;
    g_autoptr(JsonNode) answer = NULL;
    int status;

    if (!command_parse(command, &argc, &argv, entries, 0, 0, &status)) {
        return status;
    }
    control = command_control();
    answer = control ? ask(control, "status", NULL) : NULL;
    if (!answer) {
        return 1;
    }
    if (json) {
        print_json(answer);
    } else {
        view_status(stdout, json_node_get_object(answer), &all);
    }
    return 0;
}

int command_explain(const Command *command, int argc, char **argv)
{
    gboolean json = FALSE;
    const GOptionEntry entries[] = { { "json", 'j', 0, G_OPTION_ARG_NONE, &json,
                                       "for programs", NULL },
                                     G_OPTION_ENTRY_NULL };
    g_autofree char *control = NULL;
    g_autoptr(JsonNode) answer = NULL;
    int status;

    if (!command_parse(command, &argc, &argv, entries, 1, 1, &status)) {
        return status;
    }
    control = command_control();
    answer = control ? ask(control, "explain", argv[1]) : NULL;
    if (!answer) {
        return 1;
    }
    if (json) {
        print_json(answer);
    } else {
        view_explain(stdout, json_node_get_object(answer));
    }
    return 0;
}

int command_top(const Command *command, int argc, char **argv)
{
    double delay_s = 1;
    int rounds = 0;
    const GOptionEntry entries[] = { { "delay", 'd', 0, G_OPTION_ARG_DOUBLE, &delay_s,
                                       "seconds between two looks (1)", "S" },
                                     { "count", 'n', 0, G_OPTION_ARG_INT, &rounds,
                                       "end after so many looks", "N" },
                                     G_OPTION_ENTRY_NULL };
    g_autofree char *control = NULL;
    int status;

    if (!command_parse(command, &argc, &argv, entries, 0, 0, &status)) {
        return status;
    }
    if (!(delay_s >= 0.1 && delay_s <= 3600)) {
        command_fail("--delay must be from 0.1 to 3600 seconds");
        return STATUS_USAGE;
    }
    control = command_control();
    for (int round = 0; control && (!rounds || round < rounds); round++) {
        ViewOptions options = terminal();
        g_autoptr(JsonNode) answer = NULL;

        if (round) {
            g_usleep(delay_s * G_USEC_PER_SEC);
        }
        answer = ask(control, "status", NULL);
        if (!answer) {
            return 1;
        }
        if (options.columns) {
            /* Home, and clear what was there: no flicker. */
            printf("\033[H\033[J");
        }
        view_status(stdout, json_node_get_object(answer), &options);
        fflush(stdout);
    }
    return control ? 0 : 1;
}
