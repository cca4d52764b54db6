/*
 * What guests do with their memory
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <math.h>
#include <string.h>

#include "model.h"

#define PI 3.14159265358979323846
#define STORM_EVERY_S 1200
#define SAW_STEPS 16
#define MIN(a, b) ((a) < (b) ? (a) : (b))

uint64_t model_random(ModelRandom *r)
{
    r->state ^= r->state >> 12;
    r->state ^= r->state << 25;
    r->state ^= r->state >> 27;
    return r->state * UINT64_C(0x2545f4914f6cdd1d);
}

double model_random_unit(ModelRandom *r)
{
    return (model_random(r) >> 11) * 0x1p-53;
}

static double random_between(ModelRandom *r, double low, double high)
{
    return low + (high - low) * model_random_unit(r);
}

static double random_exponential(ModelRandom *r, double mean)
{
    return -mean * log(1 - model_random_unit(r));
}

static int64_t seconds(double s)
{
    return (int64_t)(s * MODEL_S) + 1;
}

/* Of twenty guests: six idle, four bursts, three each of square and saw, two
 * each of a day and of boot storms */
static ModelWork mixed_work(size_t index)
{
    static const ModelWork works[20] = {
        MODEL_IDLE,    MODEL_POISSON, MODEL_SQUARE,  MODEL_SAW,     MODEL_IDLE,
        MODEL_DIURNAL, MODEL_BOOT,    MODEL_POISSON, MODEL_IDLE,    MODEL_SQUARE,
        MODEL_SAW,     MODEL_IDLE,    MODEL_POISSON, MODEL_DIURNAL, MODEL_BOOT,
        MODEL_IDLE,    MODEL_SQUARE,  MODEL_SAW,     MODEL_POISSON, MODEL_IDLE,
    };

    return works[index % 20];
}

void workload_start(const ModelConfig *config, ModelGuest *g, size_t index)
{
    static const uint64_t sizes_gib[] = { 2, 4, 4, 8 };

    g->work = config->work == MODEL_MIXED ? mixed_work(index) : config->work;
    g->total_bytes = sizes_gib[model_random(&g->random) % 4] * MODEL_GIB;
    g->fresh_bytes = g->total_bytes;
    /* They do not all start at once. */
    g->work_ns = seconds(random_between(&g->random, 0, 10));
    switch (g->work) {
    case MODEL_SQUARE:
        g->period_ns = config->square_period_ns
                           ? config->square_period_ns
                           : seconds(random_between(&g->random, 20, 120));
        if (config->square_period_ns) {
            g->work_ns = 1;
        }
        break;
    case MODEL_SAW:
        g->period_ns = seconds(random_between(&g->random, 60, 300));
        break;
    default:
        break;
    }
}

static double next_square(const ModelConfig *config, ModelGuest *g, int64_t now_ns)
{
    g->work_ns = now_ns + g->period_ns / 2;
    return g->phase++ % 2 ? config->square_high_percent / 100.0 : 0.25;
}

static double next_poisson(ModelGuest *g, int64_t now_ns)
{
    if (g->phase++ % 2) {
        g->work_ns = now_ns + seconds(random_exponential(&g->random, 10));
        return 0.3 + MIN(random_exponential(&g->random, 0.125), 0.5);
    }
    g->work_ns = now_ns + seconds(random_exponential(&g->random, 60));
    return 0.3;
}

/* Off the wall clock, so that all guests boot in the same minute */
static double next_boot(ModelGuest *g, int64_t now_ns)
{
    static const double use[] = { 0.15, 0.30, 0.45, 0.60, 0.25 };
    uint32_t step = g->phase++ % 5;
    int64_t storm_ns = (now_ns / (STORM_EVERY_S * MODEL_S) + 1) * STORM_EVERY_S * MODEL_S;

    if (step < 3) {
        g->work_ns = now_ns + 5 * MODEL_S;
    } else if (step == 3) {
        g->work_ns = now_ns + 60 * MODEL_S;
    } else {
        g->work_ns = storm_ns + seconds(random_between(&g->random, 0, 60));
    }
    return use[step];
}

static double next_saw(ModelGuest *g, int64_t now_ns)
{
    g->work_ns = now_ns + g->period_ns / SAW_STEPS;
    return 0.2 + 0.5 * (g->phase++ % SAW_STEPS) / SAW_STEPS;
}

static double next_diurnal(ModelGuest *g, int64_t now_ns)
{
    double day = (double)now_ns / (3600 * MODEL_S);

    g->work_ns = now_ns + 10 * MODEL_S;
    return 0.45 - 0.25 * cos(2 * PI * day) + random_between(&g->random, -0.03, 0.03);
}

static double next_leak(ModelGuest *g, int64_t now_ns)
{
    g->work_ns = now_ns + 10 * MODEL_S;
    return MIN(0.1 + 0.0025 * g->phase++, 0.95);
}

static double next_idle(ModelGuest *g, int64_t now_ns)
{
    g->work_ns = now_ns + seconds(random_exponential(&g->random, 60));
    return random_between(&g->random, 0.19, 0.21);
}

uint64_t workload_next(const ModelConfig *config, ModelGuest *g, int64_t now_ns)
{
    double use;

    switch (g->work) {
    case MODEL_SQUARE:
        use = next_square(config, g, now_ns);
        break;
    case MODEL_POISSON:
        use = next_poisson(g, now_ns);
        break;
    case MODEL_BOOT:
        use = next_boot(g, now_ns);
        break;
    case MODEL_SAW:
        use = next_saw(g, now_ns);
        break;
    case MODEL_DIURNAL:
        use = next_diurnal(g, now_ns);
        break;
    case MODEL_LEAK:
        use = next_leak(g, now_ns);
        break;
    default:
        use = next_idle(g, now_ns);
        break;
    }
    return use * g->total_bytes;
}

static const char *const work_names[MODEL_WORKS] = {
    [MODEL_IDLE] = "idle", [MODEL_SQUARE] = "square", [MODEL_POISSON] = "poisson",
    [MODEL_BOOT] = "boot", [MODEL_SAW] = "saw",       [MODEL_DIURNAL] = "diurnal",
    [MODEL_LEAK] = "leak", [MODEL_MIXED] = "mixed",
};

const char *model_work_name(ModelWork work)
{
    return (size_t)work < MODEL_WORKS ? work_names[work] : "?";
}

ModelWork model_work_by_name(const char *name)
{
    int work = 0;

    while (work < MODEL_WORKS && strcmp(name, work_names[work])) {
        work++;
    }
    return work;
}
