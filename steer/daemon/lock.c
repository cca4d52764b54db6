/*
 * One daemon a host
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>
#include <gio/gio.h>

#include "lock.h"

/* The number in the file is for people; the lock is what counts. */
static void lock_write_pid(int fd)
{
    g_autofree char *text = g_strdup_printf("%d\n", getpid());

    if (ftruncate(fd, 0) == 0) {
        (void)!pwrite(fd, text, strlen(text), 0);
    }
}

static void lock_holder(int fd, char *text, gsize size)
{
    gssize length = pread(fd, text, size - 1, 0);

    text[MAX(length, 0)] = '\0';
    g_strchomp(text);
}

int lock_take(const char *path, GError **errp)
{
    char holder[32];
    int fd;

    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0) {
        g_set_error(errp, G_IO_ERROR, g_io_error_from_errno(errno), "%s: %s", path,
                    g_strerror(errno));
        return -1;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        lock_write_pid(fd);
        return fd;
    }
    lock_holder(fd, holder, sizeof(holder));
    g_set_error(errp, G_IO_ERROR, G_IO_ERROR_BUSY,
                "another balloon-steer runs already, process %s: it holds %s",
                *holder ? holder : "unknown", path);
    close(fd);
    return -1;
}
