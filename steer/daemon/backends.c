/*
 * Backends that are modules, loaded when the configuration asks for them
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <gio/gio.h>
#include <gmodule.h>

#include "backends.h"

const GuestBackendClass *backends_load(const char *name, GError **errp)
{
    const char *folder = g_getenv("BALLOON_STEER_MODULES");
    g_autofree char *path =
        g_strdup_printf("%s/backend-%s.so", folder ? folder : STEER_MODULE_FOLDER, name);
    const GuestBackendClass *class = NULL;
    GModule *module;

    module = g_module_open(path, G_MODULE_BIND_LOCAL);
    if (!module) {
        g_set_error(errp, G_IO_ERROR, G_IO_ERROR_NOT_FOUND,
                    "the backend '%s' is not installed (%s)", name, g_module_error());
        return NULL;
    }
    if (!g_module_symbol(module, GUEST_BACKEND_SYMBOL, (gpointer *)&class) ||
        class->abi != GUEST_BACKEND_ABI) {
        g_set_error(errp, G_IO_ERROR, G_IO_ERROR_NOT_SUPPORTED,
                    "%s is of another version of balloon-steer", path);
        g_module_close(module);
        return NULL;
    }
    g_module_make_resident(module);
    return class;
}
