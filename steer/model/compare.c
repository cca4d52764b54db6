/*
 * Runs the model, and writes one line of CSV for each run
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <stdlib.h>
#include <string.h>

#include "model.h"

static const struct {
    const char *name;
    ModelControl control;
    uint32_t fixed_delay_ms;
} contenders[] = {
    { "fixed-2s", MODEL_FIXED, 2000 },   { "fixed-100ms", MODEL_FIXED, 100 },
    { "fixed-30s", MODEL_FIXED, 30000 }, { "psi-only", MODEL_PSI_ONLY, 0 },
    { "steer", MODEL_STEER, 0 },
};

#define CONTENDERS (sizeof(contenders) / sizeof(contenders[0]))

static const char usage[] =
    "usage: model-compare [--work NAME] [--guests N] [--minutes N]\n"
    "                     [--seeds N] [--first-seed N] [--overcommit PERCENT]\n"
    "                     [--period S] [--high PERCENT] [--only CONTENDER]\n"
    "                     [--log FILE] [--set KEY=VALUE]...\n"
    "       works: idle square poisson boot saw diurnal leak mixed\n"
    "       contenders: fixed-2s fixed-100ms fixed-30s psi-only steer\n";

static void fail(const char *what, const char *value)
{
    fprintf(stderr, "model-compare: %s: '%s'\n%s", what, value, usage);
    exit(2);
}

static uint32_t number(const char *option, const char *text, uint32_t max)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (end == text || *end || !value || value > max) {
        fail(option, text);
    }
    return value;
}

static void run(ModelConfig *config, size_t contender)
{
    static bool header;
    ModelResult r;

    config->control = contenders[contender].control;
    config->fixed_delay_ms = contenders[contender].fixed_delay_ms;
    model_run(config, &r);
    if (!header) {
        puts("work,guests,minutes,overcommit_percent,period_s,high_percent,"
             "seed,contender,refaulted_gib,returned_gib,stall_s,some_s,full_s,"
             "swapped_gib,mean_backlog_gib,least_available_gib,passes,"
             "commands,calm_commands_per_vm_hour,transitions,opposite_in_10s,"
             "calm_s,easy_s,watch_s,tight_s,urgent_s");
        header = true;
    }
    printf("%s,%zu,%.0f,%u,%.0f,%u,%llu,%s,%.2f,%.2f,%.3f,%.3f,%.3f,%.3f,%.2f,"
           "%.3f,%llu,%llu,%u,%u,%u,%.0f,%.0f,%.0f,%.0f,%.0f\n",
           model_work_name(config->work), config->guests,
           config->duration_ns / 60.0 / MODEL_S, config->overcommit_percent,
           (double)config->square_period_ns / MODEL_S, config->square_high_percent,
           (unsigned long long)config->seed, contenders[contender].name,
           (double)r.refaulted_bytes / MODEL_GIB, (double)r.returned_bytes / MODEL_GIB,
           r.stall_s, r.some_s, r.full_s, (double)r.swapped_bytes / MODEL_GIB,
           r.mean_backlog_bytes / MODEL_GIB, (double)r.least_usable_bytes / MODEL_GIB,
           (unsigned long long)r.passes, (unsigned long long)r.commands,
           r.calm_commands_per_hour, r.transitions, r.opposite_in_10s,
           r.state_s[POLICY_CALM], r.state_s[POLICY_EASY], r.state_s[POLICY_WATCH],
           r.state_s[POLICY_TIGHT], r.state_s[POLICY_URGENT]);
    fflush(stdout);
}

/* "tight-tte-ms=0": a key of the law */
static void set_key(ModelConfig *config, const char *text)
{
    const char *value = strchr(text, '=');
    char message[200];

    for (size_t i = 0; value && i < policy_config_keys_count; i++) {
        const PolicyConfigKey *key = &policy_config_keys[i];
        size_t length = value - text;

        if (strlen(key->key) == length && !memcmp(key->key, text, length)) {
            *(uint32_t *)((char *)&config->policy + key->offset) =
                strtoul(value + 1, NULL, 10);
            if (!policy_config_check(&config->policy, message, sizeof(message))) {
                fail(message, text);
            }
            return;
        }
    }
    fail("--set wants KEY=VALUE", text);
}

typedef struct Options {
    ModelConfig config;
    uint32_t first, seeds;
    const char *only;
} Options;

static void option(Options *o, const char *name, const char *value)
{
    ModelConfig *c = &o->config;

    if (!strcmp(name, "--work")) {
        c->work = model_work_by_name(value);
        if (c->work == MODEL_WORKS) {
            fail(name, value);
        }
    } else if (!strcmp(name, "--guests")) {
        c->guests = number(name, value, 100000);
    } else if (!strcmp(name, "--minutes")) {
        c->duration_ns = number(name, value, 10000) * 60 * MODEL_S;
    } else if (!strcmp(name, "--seeds")) {
        o->seeds = number(name, value, 100000);
    } else if (!strcmp(name, "--first-seed")) {
        o->first = number(name, value, 1000000);
    } else if (!strcmp(name, "--overcommit")) {
        c->overcommit_percent = number(name, value, 1000);
    } else if (!strcmp(name, "--period")) {
        c->square_period_ns = number(name, value, 3600) * MODEL_S;
    } else if (!strcmp(name, "--high")) {
        c->square_high_percent = number(name, value, 100);
    } else if (!strcmp(name, "--set")) {
        set_key(c, value);
    } else if (!strcmp(name, "--only")) {
        o->only = value;
    } else if (!strcmp(name, "--log")) {
        c->log = fopen(value, "w");
        if (!c->log) {
            fail(name, value);
        }
        fputs("time_s,available_gib,floor_gib,backlog_gib,refaulted_gib,"
              "stall_s,state,delay_ms\n",
              c->log);
    } else {
        fail("unknown option", name);
    }
}

int main(int argc, char **argv)
{
    Options o = { .first = 1, .seeds = 1 };
    bool any = false;

    model_config_init(&o.config);
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc) {
            fail("option without a value", argv[i]);
        }
        option(&o, argv[i], argv[i + 1]);
    }
    for (uint32_t seed = o.first; seed < o.first + o.seeds; seed++) {
        o.config.seed = seed;
        for (size_t i = 0; i < CONTENDERS; i++) {
            if (!o.only || !strcmp(o.only, contenders[i].name)) {
                run(&o.config, i);
                any = true;
            }
        }
    }
    if (!any) {
        fail("--only", o.only);
    }
    if (o.config.log) {
        fclose(o.config.log);
    }
    return 0;
}
