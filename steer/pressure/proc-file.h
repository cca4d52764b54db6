/*
 * A file in /proc that is read again and again
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef STEER_PROC_FILE_H
#define STEER_PROC_FILE_H

#include <stdbool.h>
#include <glib.h>

/* Kept open: a read at offset 0 makes the kernel write the text anew. */
typedef struct ProcFile {
    char *path;
    int fd;
} ProcFile;

/* clang-format off */
#define PROC_FILE_INIT { .path = NULL, .fd = -1 }
/* clang-format on */

/*
 * Read the whole file, opening it first if need be.
 *
 * @buffer, @size: gets the text and a NUL; a file that does not fit is an error
 *
 * Returns its length, or -1.  After an error the next call opens it again.
 */
gssize proc_file_read(ProcFile *file, char *buffer, gsize size, GError **errp);

/* @path is copied. */
void proc_file_init(ProcFile *file, const char *path);
void proc_file_clear(ProcFile *file);

#endif
