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

#endif
