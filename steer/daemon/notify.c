/*
 * What systemd is told, if it asked: readiness, reloads, signs of life
 *
 * The protocol is a datagram to $NOTIFY_SOCKET; see sd_notify(3).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "notify.h"
#include "scan.h"

static void notify_send(const char *text)
{
    const char *path = g_getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    size_t length;
    int fd;

    if (!path || (*path != '/' && *path != '@') ||
        strlen(path) >= sizeof(address.sun_path)) {
        return;
    }
    length = strlen(path);
    memcpy(address.sun_path, path, length);
    if (*path == '@') {
        address.sun_path[0] = '\0';
    }
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        sendto(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT,
               (struct sockaddr *)&address,
               offsetof(struct sockaddr_un, sun_path) + length);
        close(fd);
    }
}

void notify_ready(void)
{
    notify_send("READY=1");
}

void notify_reloading(void)
{
    g_autofree char *text = g_strdup_printf(
        "RELOADING=1\nMONOTONIC_USEC=%" G_GINT64_FORMAT, g_get_monotonic_time());

    notify_send(text);
}

void notify_stopping(void)
{
    notify_send("STOPPING=1");
}

void notify_status(const char *text)
{
    g_autofree char *line = g_strdup_printf("STATUS=%s", text);

    notify_send(line);
}

void notify_alive(int64_t now_us)
{
    static int64_t next_us;
    const char *text = g_getenv("WATCHDOG_USEC");
    uint64_t interval_us;
    Span word = { text, text ? strlen(text) : 0 };

    if (text && now_us >= next_us && scan_number(word, &interval_us)) {
        notify_send("WATCHDOG=1");
        next_us = now_us + interval_us / 4;
    }
}
