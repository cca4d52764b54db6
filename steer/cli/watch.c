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
#include "screen.h"
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
    /* What is said is to stay. */
    screen_close();
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

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row) {
        /* Five lines above the VMs, one below them, and where the cursor stays. */
        return (ViewOptions){ MAX(size.ws_row - 7, 1), size.ws_col };
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

static bool pause_between(bool has_screen, int64_t us)
{
    if (!has_screen) {
        g_usleep(us);
        return true;
    }
    return screen_wait(us);
}

static bool look(const char *control, bool has_screen)
{
    g_autoptr(JsonNode) answer = ask(control, "status", NULL);
    ViewOptions options = terminal();
    char *text = NULL;
    size_t length;
    FILE *stream;

    if (!answer) {
        return false;
    }
    stream = open_memstream(&text, &length);
    view_status(stream, json_node_get_object(answer), &options);
    fclose(stream);
    if (has_screen) {
        screen_draw(text);
    } else {
        fputs(text, stdout);
        fflush(stdout);
    }
    free(text);
    return true;
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
    bool has_screen;
    int status;

    if (!command_parse(command, &argc, &argv, entries, 0, 0, &status)) {
        return status;
    }
    if (!(delay_s >= 0.1 && delay_s <= 3600)) {
        command_fail("--delay must be from 0.1 to 3600 seconds");
        return STATUS_USAGE;
    }
    control = command_control();
    if (!control) {
        return 1;
    }
    has_screen = screen_open();
    for (int round = 0; !rounds || round < rounds; round++) {
        if (round && !pause_between(has_screen, delay_s * G_USEC_PER_SEC)) {
            break;
        }
        if (!look(control, has_screen)) {
            return 1;
        }
    }
    screen_close();
    return 0;
}
