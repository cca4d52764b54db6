/*
 * Metrics in Prometheus' text format, for node_exporter's textfile collector
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef STEER_METRICS_H
#define STEER_METRICS_H

#include "engine.h"

/* Appended to @text. */
void metrics_format(const Engine *engine, GString *text);

/* Written beside @path and renamed, so that no reader sees half of it. */
bool metrics_write(const Engine *engine, const char *path, GError **errp);

#endif
