/*
 * What systemd is told, if it asked: readiness, reloads, signs of life
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef STEER_NOTIFY_H
#define STEER_NOTIFY_H

#include <stdint.h>
#include <glib.h>

void notify_ready(void);
void notify_reloading(void);
void notify_stopping(void);
/* One line that `systemctl status` shows. */
void notify_status(const char *text);
/* Once a whole tick; sent no more often than is of use. */
void notify_alive(int64_t now_us);

#endif
