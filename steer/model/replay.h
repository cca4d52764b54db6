/*
 * A recorded trace through the law: what would it have done?
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef STEER_MODEL_REPLAY_H
#define STEER_MODEL_REPLAY_H

#include <glib.h>
#include <stdio.h>

#include "policy.h"

/* For the last line of a replay, and for tests */
typedef struct ReplayResult {
    uint64_t steps;
    uint64_t commands;
    uint64_t withdrawals;
    uint32_t transitions;
    size_t vms; /* at the end */
    double state_s[POLICY_STATES];
} ReplayResult;

/*
 * Replays the trace in @file, named @file_name in errors. The law steps when
 * it wants to and at each host row, with what the trace said last; every
 * command is taken to be obeyed at once. The memory in the trace is what it
 * was: it does not answer to the commands.
 * @out: transitions and, if @verbose, commands, a line each; a summary at the
 *       end. NULL for none.
 */
bool replay_run(FILE *file, const char *file_name, const PolicyConfig *config, FILE *out,
                bool verbose, ReplayResult *result, GError **error);

#endif /* STEER_MODEL_REPLAY_H */
