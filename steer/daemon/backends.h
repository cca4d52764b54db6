/*
 * Backends that are modules, loaded when the configuration asks for them
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef STEER_BACKENDS_H
#define STEER_BACKENDS_H

#include "guest.h"

/*
 * Never unloaded.  NULL: not installed, or built for another version.  Looked
 * for in $BALLOON_STEER_MODULES, if that is set, else where it is installed:
 * below the prefix of the program that runs, or of its build.
 */
const GuestBackendClass *backends_load(const char *name, GError **errp);

/* All of these GuestBackends; false: a thread was left behind. */
bool backends_stop(GPtrArray *backends);

/*
 * The last thing that a program does that had backends: @status to return from
 * main().  Does not come back if a thread was left behind, in whose way a
 * library's destructors must not get.
 */
int backends_end(int status);

#endif
