/*
 * A terminal for a while: a screen of its own, one key at a time
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef STEER_SCREEN_H
#define STEER_SCREEN_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Take standard output's terminal, which gets its screen and its modes back
 * with screen_close() and when we are stopped.  Whatever ends a program by a
 * signal ends screen_wait() instead.  False, and nothing is taken, without a
 * terminal.
 */
bool screen_open(void);

/* Does nothing without an open screen. */
void screen_close(void);

/* All that the screen is to show from now on. */
void screen_draw(const char *text);

/*
 * Wait, for as long at most; any key but q, and another size, end it sooner.
 * False: the user wants an end (q, a signal), or the terminal is gone.
 */
bool screen_wait(int64_t us);

#endif
