/*
 * The control socket: a request a line, an answer a line, both JSON
 *
 *   {"command": "status"}
 *   {"command": "explain", "vm": "web1"}
 *   {"command": "pin", "vm": "web1", "delay-ms": 50, "for-s": 600}
 *   {"command": "withdraw", "vm": "web1", "for-s": 600}
 *   {"command": "unpin", "vm": "web1"}
 *
 * answer {"return": ...} or {"error": "..."}.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef STEER_CONTROL_H
#define STEER_CONTROL_H

#include "engine.h"

/* Longest hold of a VM: a pin that is forgotten ends by itself. */
#define CONTROL_PIN_S_MAX (30 * 24 * 3600)

typedef struct Control Control;

/* A socket that is there is replaced: whoever calls this holds the lock. */
Control *control_new(Engine *engine, const char *path, GError **errp);
void control_free(Control *control);

/*
 * The answer to one request, without a newline.
 * @privileged: may the one who asks change anything?
 */
char *control_answer(Engine *engine, const char *line, gsize length, bool privileged);

#endif
