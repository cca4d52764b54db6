/*
 * One daemon a host
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef STEER_LOCK_H
#define STEER_LOCK_H

#include <glib.h>

/*
 * Held until the descriptor is closed or the process ends, however it ends.
 * Returns the descriptor, or -1; the error then says who holds it.
 */
int lock_take(const char *path, GError **errp);

#endif
