/*
 * What an operator sees of the engine, as JSON
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef STEER_STATUS_H
#define STEER_STATUS_H

#include "engine.h"

/* { "host": {...}, "vms": [...] }, appended to @json on one line. */
void status_write(const Engine *engine, GString *json);

/* One VM with all that bears on what it is asked for. */
void status_explain(const Engine *engine, size_t index, GString *json);

/* @text as a JSON string, quotes included. */
void status_quote(GString *json, const char *text);

#endif
