/*
 * QTest: a virtio-balloon with a report delay, and a driver of it that the test
 * plays
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "virtio-balloon-report-util.h"

void find_device_again(Balloon *b)
{
    QPCIAddress address = { .devfn = QPCI_DEVFN(4, 0) };

    b->dev = virtio_pci_new(b->qs->pcibus, &address);
    g_assert_nonnull(b->dev);
    qvirtio_pci_device_enable(b->dev);
}

void find_device(Balloon *b)
{
    find_device_again(b);
    qvirtio_start_device(&b->dev->vdev);
}

Balloon *start_machine(const char *transport, const char *options,
                       const char *machine)
{
    Balloon *b = g_new0(Balloon, 1);

    b->modern = !strcmp(transport, "modern");
    b->qs = qtest_pc_boot("%s -device virtio-balloon-pci,id=b,addr=04.0,%s,%s",
                          machine,
                          b->modern ? "disable-legacy=on" : "disable-modern=on",
                          options);
    b->qts = b->qs->qts;
    find_device(b);
    return b;
}

Balloon *start(const void *transport, const char *options)
{
    return start_machine(transport, options, "");
}

void negotiate(Balloon *b, uint64_t without)
{
    QVirtioDevice *vdev = &b->dev->vdev;

    qvirtio_set_features(vdev, qvirtio_get_features(vdev) & ~without &
                               ~QVIRTIO_F_BAD_FEATURE);
    qvirtio_set_driver_ok(vdev);
}

Balloon *start_negotiated(const void *transport)
{
    Balloon *b = start(transport, ON);

    negotiate(b, 0);
    return b;
}

void lose_device(Balloon *b)
{
    qvirtio_pci_device_disable(b->dev);
    qvirtio_pci_destructor(&b->dev->obj);
    g_free(b->dev);
    b->dev = NULL;
}

void stop(Balloon *b)
{
    if (b->dev) {
        lose_device(b);
    }
    qtest_shutdown(b->qs);
    g_free(b);
}

static uint64_t config_base(Balloon *b)
{
    return b->modern ? b->dev->device_cfg_offset : VIRTIO_PCI_CONFIG_OFF(false);
}

void write_byte(Balloon *b, unsigned int offset, uint8_t value)
{
    qpci_io_writeb(b->dev->pdev, b->dev->bar, config_base(b) + offset, value);
}

void write_config(Balloon *b, unsigned int offset, uint32_t value)
{
    if (b->modern) {
        qpci_io_writel(b->dev->pdev, b->dev->bar, config_base(b) + offset,
                       value);
        return;
    }
    for (int i = 0; i < 4; i++) {
        write_byte(b, offset + i, value >> (8 * i));
    }
}

/* Little-endian on every transport; also before features are negotiated. */
uint32_t read_config(Balloon *b, unsigned int offset)
{
    return qpci_io_readl(b->dev->pdev, b->dev->bar, config_base(b) + offset);
}

bool config_interrupt(Balloon *b)
{
    uint64_t isr = b->modern ? b->dev->isr_cfg_offset : VIRTIO_PCI_ISR;

    return qpci_io_readb(b->dev->pdev, b->dev->bar, isr) & 2;
}

void set_delay(QTestState *qts, unsigned int ms)
{
    qtest_qmp_assert_success(qts, "{ 'execute': 'balloon-set-report-delay',"
                             " 'arguments': { 'delay-ms': %u } }", ms);
}

void set_lease(QTestState *qts, unsigned int ms, unsigned int lease_ms)
{
    qtest_qmp_assert_success(qts, "{ 'execute': 'balloon-set-report-delay',"
                             " 'arguments': { 'delay-ms': %u,"
                             " 'lease-ms': %u } }", ms, lease_ms);
}

void withdraw(QTestState *qts)
{
    qtest_qmp_assert_success(qts, "{ 'execute': 'balloon-set-report-delay' }");
}

QDict *query(QTestState *qts)
{
    return qtest_qmp_assert_success_ref(qts,
        "{ 'execute': 'query-balloon-report-delay' }");
}

int64_t query_int(QTestState *qts, const char *key)
{
    QDict *info = query(qts);
    int64_t value = qdict_get_try_int(info, key, -1);

    qobject_unref(info);
    return value;
}

bool query_bool(QTestState *qts, const char *key)
{
    QDict *info = query(qts);
    bool value = qdict_get_bool(info, key);

    qobject_unref(info);
    return value;
}

void assert_error(QDict *response, const char *class, const char *words)
{
    QDict *error = qdict_get_qdict(response, "error");

    g_assert_nonnull(error);
    g_assert_cmpstr(qdict_get_str(error, "class"), ==, class);
    if (!strstr(qdict_get_str(error, "desc"), words)) {
        g_error("'%s' does not say '%s'", qdict_get_str(error, "desc"), words);
    }
    qobject_unref(response);
}

void assert_applied_event(QTestState *qts, int64_t applied, int64_t requested)
{
    QDict *event = qtest_qmp_eventwait_ref(qts, EVENT);
    QDict *data = qdict_get_qdict(event, "data");

    g_assert_cmpint(qdict_get_int(data, "applied-ms"), ==, applied);
    g_assert_cmpint(qdict_get_try_int(data, "requested-ms", -1), ==, requested);
    qobject_unref(event);
}

/* What was sent before the answer to a command has been received with it. */
void assert_no_event(QTestState *qts)
{
    query_bool(qts, "offered");
    g_assert_null(qtest_qmp_event_ref(qts, EVENT));
}

void add_transports(const char *fact, void (*test)(const void *))
{
    static const char *const transports[] = { "modern", "legacy" };

    for (int i = 0; i < ARRAY_SIZE(transports); i++) {
        g_autofree char *name = g_strdup_printf("balloon-report/%s/%s",
                                                transports[i], fact);

        qtest_add_data_func(name, transports[i], test);
    }
}
