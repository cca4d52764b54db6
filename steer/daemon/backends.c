/*
 * Backends that are modules, loaded when the configuration asks for them
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <stdio.h>
#include <unistd.h>
#include <gio/gio.h>
#include <gmodule.h>

#include "backends.h"

static bool left_behind;

/*
 * Beside the program first, which may have been moved since it was built: from
 * PREFIX/sbin/ to PREFIX/lib/.
 */
static char *module_path(const char *name)
{
    const char *folder = g_getenv("BALLOON_STEER_MODULES");
    g_autofree char *file = g_strdup_printf("backend-%s.so", name);
    g_autofree char *program = g_file_read_link("/proc/self/exe", NULL);
    g_autofree char *sbin = NULL, *prefix = NULL, *path = NULL;

    if (folder) {
        return g_build_filename(folder, file, NULL);
    }
    if (program) {
        sbin = g_path_get_dirname(program);
        prefix = g_path_get_dirname(sbin);
        path = g_build_filename(prefix, STEER_LIBDIR, "balloon-steer", file, NULL);
        if (g_file_test(path, G_FILE_TEST_EXISTS)) {
            return g_steal_pointer(&path);
        }
    }
    return g_build_filename(STEER_MODULE_FOLDER, file, NULL);
}

const GuestBackendClass *backends_load(const char *name, GError **errp)
{
    g_autofree char *path = module_path(name);
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

bool backends_stop(GPtrArray *backends)
{
    bool all = true;

    for (guint i = 0; i < backends->len; i++) {
        GuestBackend *backend = backends->pdata[i];

        all = backend->class->stop(backend) && all;
    }
    left_behind = left_behind || !all;
    return all;
}

int backends_end(int status)
{
    if (left_behind) {
        fflush(NULL);
        _exit(status);
    }
    return status;
}
