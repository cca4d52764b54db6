/*
 * A file in /proc that is read again and again
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <gio/gio.h>

#include "proc-file.h"

void proc_file_init(ProcFile *file, const char *path)
{
    file->path = g_strdup(path);
    file->fd = -1;
}

static void proc_file_close(ProcFile *file)
{
    if (file->fd >= 0) {
        close(file->fd);
        file->fd = -1;
    }
}

void proc_file_clear(ProcFile *file)
{
    proc_file_close(file);
    g_clear_pointer(&file->path, g_free);
}

static gssize proc_file_fail(ProcFile *file, int code, GError **errp)
{
    proc_file_close(file);
    g_set_error(errp, G_IO_ERROR, g_io_error_from_errno(code), "%s: %s", file->path,
                g_strerror(code));
    return -1;
}

gssize proc_file_read(ProcFile *file, char *buffer, gsize size, GError **errp)
{
    gsize length = 0;

    if (file->fd < 0) {
        file->fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (file->fd < 0) {
            return proc_file_fail(file, errno, errp);
        }
    }
    for (;;) {
        gssize got = pread(file->fd, buffer + length, size - length, length);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return proc_file_fail(file, errno, errp);
        }
        if (got == 0) {
            break;
        }
        length += got;
        if (length == size) {
            return proc_file_fail(file, EFBIG, errp);
        }
    }
    buffer[length] = '\0';
    return length;
}
