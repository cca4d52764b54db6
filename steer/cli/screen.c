/*
 * A terminal for a while: a screen of its own, one key at a time
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>
#include <glib.h>

#include "screen.h"

/* The other screen, and no cursor; and back. */
#define ENTER "\033[?1049h\033[?25l"
#define LEAVE "\033[?25h\033[?1049l"
/* What was there is overwritten, not wiped: no flicker. */
#define HOME "\033[H"
#define TO_LINE_END "\033[K"
#define TO_SCREEN_END "\033[J"

#define CTRL_D '\004'

static const int end_signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

static struct {
    bool open;
    bool has_keys;
    bool gone; /* the terminal takes nothing more */
    struct termios modes;
    sigset_t outside;
} screen;

static volatile sig_atomic_t end, stop;

static void on_signal(int number)
{
    if (number == SIGTSTP) {
        stop = 1;
    } else if (number != SIGWINCH) {
        end = 1;
    }
}

static void screen_put(const char *text)
{
    size_t length = strlen(text);

    while (length && !screen.gone) {
        ssize_t put = write(STDOUT_FILENO, text, length);

        if (put > 0) {
            text += put;
            length -= put;
        } else if (put == 0 || errno != EINTR || end) {
            screen.gone = true;
        }
    }
}

static void screen_enter(void)
{
    struct termios modes;

    screen.has_keys = tcgetattr(STDIN_FILENO, &screen.modes) == 0;
    if (screen.has_keys) {
        modes = screen.modes;
        modes.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        modes.c_cc[VMIN] = 1;
        modes.c_cc[VTIME] = 0;
        tcsetattr(STDIN_FILENO, TCSADRAIN, &modes);
    }
    screen_put(ENTER);
}

static void screen_leave(void)
{
    screen_put(LEAVE);
    if (screen.has_keys) {
        tcsetattr(STDIN_FILENO, TCSADRAIN, &screen.modes);
    }
}

bool screen_open(void)
{
    struct sigaction action = { .sa_handler = on_signal };
    sigset_t ours;

    if (!isatty(STDOUT_FILENO)) {
        return false;
    }
    /* They come while we wait, and at no other time. */
    sigemptyset(&ours);
    for (gsize i = 0; i < G_N_ELEMENTS(end_signals); i++) {
        sigaddset(&ours, end_signals[i]);
        sigaction(end_signals[i], &action, NULL);
    }
    sigaddset(&ours, SIGTSTP);
    sigaddset(&ours, SIGWINCH);
    sigaction(SIGTSTP, &action, NULL);
    sigaction(SIGWINCH, &action, NULL);
    sigprocmask(SIG_BLOCK, &ours, &screen.outside);
    screen.open = true;
    screen_enter();
    return true;
}

void screen_close(void)
{
    if (screen.open) {
        screen.open = false;
        screen_leave();
        sigprocmask(SIG_SETMASK, &screen.outside, NULL);
    }
}

void screen_draw(const char *text)
{
    g_autoptr(GString) frame = g_string_new(HOME);

    for (; *text; text++) {
        if (*text == '\n') {
            g_string_append(frame, TO_LINE_END);
        }
        g_string_append_c(frame, *text);
    }
    g_string_append(frame, TO_SCREEN_END);
    screen_put(frame->str);
}

/* The shell has its terminal until it lets us go on. */
static void screen_stop(void)
{
    stop = 0;
    screen_leave();
    raise(SIGSTOP);
    screen_enter();
}

/* False for the end. */
static bool screen_key(void)
{
    char key;
    ssize_t got = read(STDIN_FILENO, &key, 1);

    return got < 0 ? errno == EINTR || errno == EAGAIN
                   : got == 1 && key != 'q' && key != 'Q' && key != CTRL_D;
}

bool screen_wait(int64_t us)
{
    struct pollfd keys = { .fd = screen.has_keys ? STDIN_FILENO : -1, .events = POLLIN };
    struct timespec time = { us / G_USEC_PER_SEC, us % G_USEC_PER_SEC * 1000 };
    int ready = ppoll(&keys, 1, &time, &screen.outside);

    if (stop) {
        screen_stop();
    }
    if (end || screen.gone) {
        return false;
    }
    return ready <= 0 || screen_key();
}
