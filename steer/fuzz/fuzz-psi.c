/*
 * libFuzzer: what /proc says
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "meminfo.h"
#include "psi.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    PsiTotals totals;
    Meminfo info;
    uint64_t bytes;

    psi_parse(text, size, &totals, NULL);
    meminfo_parse(text, size, &info, NULL);
    zoneinfo_parse(text, size, 4096, &bytes, NULL);
    statm_parse(text, size, 4096, &bytes, NULL);
    return 0;
}
