/*
 * libFuzzer: lines that a QEMU sends
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qmp-message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Each parser gets what the scan let through, whatever it is a reply to. */
static void parse(const QmpMessage *m)
{
    g_autofree char *balloon = qmp_parse_balloon(m->body, m->body_length);
    g_autofree char *error = qmp_parse_error(m->body, m->body_length);
    uint32_t applied_ms, requested_ms;
    GuestInfo info;
    uint64_t used;
    bool migrating;

    if (qmp_parse_info(m->body, m->body_length, &info, NULL)) {
        g_assert_true(info.applied_ms <= GUEST_DELAY_MS_MAX ||
                      info.applied_ms == GUEST_NONE);
    }
    qmp_parse_applied(m->body, m->body_length, &applied_ms, &requested_ms, NULL);
    qmp_parse_migrating(m->body, m->body_length, &migrating, NULL);
    qmp_parse_used(m->body, m->body_length, &used);
    g_assert_true(!balloon || *balloon);
    for (const char *c = error; *c; c++) {
        g_assert_true(g_ascii_isprint(*c));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    QmpMessage message;

    qmp_message_scan((const char *)data, size, &message);
    if (message.body) {
        parse(&message);
    }
    return 0;
}
