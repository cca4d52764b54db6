/*
 * libFuzzer: configuration
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autoptr(Config) config = config_parse((const char *)data, size, NULL);

    if (config) {
        ConfigVm vm = config_vm(config, "web1");

        g_assert_cmpuint(vm.weight, <=, POLICY_WEIGHT_MAX);
        g_assert_cmpuint(config->policy.urgent_delay_ms, <=, POLICY_DELAY_MS_MAX);
    }
    return 0;
}
