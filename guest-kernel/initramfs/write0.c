// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * write0 FILE: one write of no bytes, which a shell cannot do.
 *
 * Ends with 0 when the kernel takes it, and with what it says otherwise.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int fd;

    if (argc != 2) {
        fprintf(stderr, "usage: write0 FILE\n");
        return 2;
    }
    fd = open(argv[1], O_WRONLY);
    if (fd < 0 || write(fd, "", 0) < 0) {
        fprintf(stderr, "write0: %s: %s\n", argv[1], strerror(errno));
        return 1;
    }
    return 0;
}
