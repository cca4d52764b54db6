/*
 * Commands to VMs while no daemon runs
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef STEER_DIRECT_H
#define STEER_DIRECT_H

#include "config.h"
#include "guest.h"

/*
 * Give @command to the VM of that name, or to every VM with @name NULL.  The
 * caller holds the lock.  Returns how many did it; each that did not is named
 * on stderr, and counted in @failed.
 */
unsigned int direct_command(const Config *config, const char *name,
                            const GuestCommand *command, unsigned int *failed);

#endif
