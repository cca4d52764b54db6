/*
 * QTest: the report delay of virtio-balloon: reports and counters, hot-plug,
 * migration, other transports
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "virtio-balloon-report-util.h"
#include "libqos/pci-pc.h"
#include "qobject/qlist.h"
#include "standard-headers/linux/virtio_ids.h"
#include "standard-headers/linux/virtio_mmio.h"

/* Memory that a test lets the guest report, far from what libqos allocates. */
#define BLOCK_ADDR (64 * 1024 * 1024ull)
#define BLOCK_SIZE (2 * 1024 * 1024u)
#define PATTERN 0xa5

/* It follows inflate, deflate, stats: free-page-hint is off. */
#define REPORT_QUEUE 3
#define POISON_BIT (1ull << VIRTIO_BALLOON_F_PAGE_POISON)

/* A negotiated device with its reporting queue, and a block that is in use. */
static QVirtQueue *start_reporting(Balloon *b, uint64_t without)
{
    QVirtioDevice *vdev = &b->dev->vdev;
    QVirtQueue *vq;

    qvirtio_set_features(vdev, qvirtio_get_features(vdev) & ~without &
                               ~QVIRTIO_F_BAD_FEATURE &
                               ~(1ull << VIRTIO_RING_F_EVENT_IDX));
    vq = qvirtqueue_setup(vdev, &b->qs->alloc, REPORT_QUEUE);
    qvirtio_set_driver_ok(vdev);
    qtest_memset(b->qts, BLOCK_ADDR, PATTERN, BLOCK_SIZE);
    return vq;
}

/* Reports one block and waits for the device to give it back. */
static void report(Balloon *b, QVirtQueue *vq, uint64_t addr, uint32_t size)
{
    uint32_t head = qvirtqueue_add(b->qts, vq, addr, size, true, false);

    qvirtqueue_kick(b->qts, &b->dev->vdev, vq, head);
    qvirtio_wait_used_elem(b->qts, &b->dev->vdev, vq, head, NULL, TIMEOUT_US);
}

static void assert_counters(QTestState *qts, int64_t reports,
                            int64_t reported, int64_t discarded)
{
    g_assert_cmpint(query_int(qts, "reports"), ==, reports);
    g_assert_cmpint(query_int(qts, "reported-bytes"), ==, reported);
    g_assert_cmpint(query_int(qts, "discarded-bytes"), ==, discarded);
}

static void report_and_stop(Balloon *b, QVirtQueue *vq)
{
    qvirtqueue_cleanup(b->dev->vdev.bus, vq, &b->qs->alloc);
    stop(b);
}

/* Reports */

static void test_counted(const void *transport)
{
    static const char *const options[] = { ON, "free-page-reporting=on" };

    for (int i = 0; i < ARRAY_SIZE(options); i++) {
        Balloon *b = start(transport, options[i]);
        QVirtQueue *vq = start_reporting(b, POISON_BIT);

        assert_counters(b->qts, 0, 0, 0);
        g_assert_false(query_bool(b->qts, "inhibited"));
        report(b, vq, BLOCK_ADDR, BLOCK_SIZE);
        g_assert_cmphex(qtest_readb(b->qts, BLOCK_ADDR + 12345), ==, 0);
        assert_counters(b->qts, 1, BLOCK_SIZE, BLOCK_SIZE);
        /* They go on over a reset of the device. */
        qvirtio_reset(&b->dev->vdev);
        assert_counters(b->qts, 1, BLOCK_SIZE, BLOCK_SIZE);
        report_and_stop(b, vq);
    }
}

static void test_poison(const void *transport)
{
    Balloon *b = start(transport, ON);
    QVirtQueue *vq = start_reporting(b, 0);

    write_config(b, POISON_OFFSET, 0xaaaaaaaa);
    g_assert_true(query_bool(b->qts, "inhibited"));
    report(b, vq, BLOCK_ADDR, BLOCK_SIZE);
    g_assert_cmphex(qtest_readb(b->qts, BLOCK_ADDR + 12345), ==, PATTERN);
    assert_counters(b->qts, 1, BLOCK_SIZE, 0);
    report_and_stop(b, vq);
}

static void test_unaligned(const void *transport)
{
    Balloon *b = start(transport, ON);
    QVirtQueue *vq = start_reporting(b, POISON_BIT);
    uint32_t head;

    report(b, vq, BLOCK_ADDR + 512, 4096);
    report(b, vq, BLOCK_ADDR, 512);
    g_assert_cmphex(qtest_readb(b->qts, BLOCK_ADDR + 600), ==, PATTERN);
    assert_counters(b->qts, 2, 4608, 0);

    /* One good and one bad block in a report. */
    head = qvirtqueue_add(b->qts, vq, BLOCK_ADDR, 4096, true, true);
    qvirtqueue_add(b->qts, vq, BLOCK_ADDR + 8192, 100, true, false);
    qvirtqueue_kick(b->qts, &b->dev->vdev, vq, head);
    qvirtio_wait_used_elem(b->qts, &b->dev->vdev, vq, head, NULL, TIMEOUT_US);
    assert_counters(b->qts, 3, 4608 + 4196, 4096);
    report_and_stop(b, vq);
}

/* What cannot be discarded is reported all the same. */
static void test_failed_discard(const void *transport)
{
    g_autofree char *path = NULL;
    g_autofree char *machine = NULL;
    int fd = g_file_open_tmp("balloon-report-XXXXXX", &path, NULL);
    Balloon *b;
    QVirtQueue *vq;

    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(ftruncate(fd, 128 * 1024 * 1024), ==, 0);
    close(fd);
    machine = g_strdup_printf("-m 128 -machine memory-backend=mem -object "
                              "memory-backend-file,id=mem,size=128M,mem-path=%s,"
                              "readonly=on,rom=off", path);
    b = start_machine(transport, ON, machine);
    vq = start_reporting(b, POISON_BIT);
    report(b, vq, BLOCK_ADDR, BLOCK_SIZE);
    assert_counters(b->qts, 1, BLOCK_SIZE, 0);
    report_and_stop(b, vq);
    unlink(path);
}

static void test_shared_memory(const void *transport)
{
    Balloon *b = start_machine(transport, ON,
                               "-m 128 -machine memory-backend=mem -object "
                               "memory-backend-memfd,id=mem,size=128M,share=on");
    QVirtQueue *vq = start_reporting(b, POISON_BIT);

    report(b, vq, BLOCK_ADDR, BLOCK_SIZE);
    g_assert_cmphex(qtest_readb(b->qts, BLOCK_ADDR + 12345), ==, 0);
    assert_counters(b->qts, 1, BLOCK_SIZE, BLOCK_SIZE);
    report_and_stop(b, vq);
}

/* Life of the device */

static void test_system_reset(const void *transport)
{
    Balloon *b = start_negotiated(transport);

    set_lease(b->qts, 100, 3600000);
    write_config(b, APPLIED_OFFSET, 100);
    qtest_system_reset(b->qts);
    g_assert_false(query_bool(b->qts, "negotiated"));
    g_assert_cmpint(query_int(b->qts, "applied-ms"), ==, -1);
    g_assert_cmpint(query_int(b->qts, "requested-ms"), ==, 100);
    g_assert_cmpint(query_int(b->qts, "lease-left-ms"), >, 0);
    stop(b);
}

static void test_unplug(const void *transport)
{
    Balloon *b = start_negotiated(transport);

    set_lease(b->qts, 100, 1);
    set_lease(b->qts, 100, 100);
    lose_device(b);
    qpci_unplug_acpi_device_test(b->qts, "b", 4);
    assert_error(qtest_qmp(b->qts,
                           "{ 'execute': 'query-balloon-report-delay' }"),
                 "DeviceNotActive", "No balloon device");
    /* The lease would run out now, on a device that is gone. */
    g_usleep(300 * 1000);

    qtest_qmp_assert_success(b->qts, "{ 'execute': 'device_add', 'arguments': {"
                             " 'driver': 'virtio-balloon-pci', 'id': 'b',"
                             " 'addr': '04.0', 'free-page-reporting': true,"
                             " 'report-delay': true } }");
    g_assert_cmpint(query_int(b->qts, "requested-ms"), ==, -1);
    assert_counters(b->qts, 0, 0, 0);
    set_delay(b->qts, 5);
    stop(b);
}

/* A second balloon is refused and leaves the first one alone. */
static void test_second_balloon(void)
{
    QTestState *qts = qtest_init("-device virtio-balloon-pci," ON);

    set_delay(qts, 100);
    assert_error(qtest_qmp(qts, "{ 'execute': 'device_add', 'arguments': {"
                           " 'driver': 'virtio-balloon-pci', 'id': 'second',"
                           " 'free-page-reporting': true,"
                           " 'report-delay': true } }"),
                 "GenericError", "Only one balloon");
    g_assert_cmpint(query_int(qts, "requested-ms"), ==, 100);
    qtest_quit(qts);
}

/* Migration, to a file and back into another machine */

static void wait_migration(QTestState *qts, const char *status)
{
    gint64 deadline = g_get_monotonic_time() + TIMEOUT_US;

    for (;;) {
        QDict *info = qtest_qmp_assert_success_ref(qts,
            "{ 'execute': 'query-migrate' }");
        bool there = !g_strcmp0(qdict_get_try_str(info, "status"), status);

        qobject_unref(info);
        if (there) {
            return;
        }
        g_assert_cmpint(g_get_monotonic_time(), <, deadline);
        g_usleep(10000);
    }
}

/* Saves @b's state and loads it into a machine with another balloon. */
static Balloon *move_to(Balloon *b, const char *options, const char *status)
{
    g_autofree char *path = NULL;
    g_autofree char *uri = NULL;
    int fd = g_file_open_tmp("balloon-report-XXXXXX", &path, NULL);
    Balloon *target;

    g_assert_cmpint(fd, >=, 0);
    close(fd);
    uri = g_strdup_printf("file:%s", path);
    qtest_qmp_assert_success(b->qts, "{ 'execute': 'migrate',"
                             " 'arguments': { 'uri': %s } }", uri);
    wait_migration(b->qts, "completed");

    target = g_new0(Balloon, 1);
    target->modern = b->modern;
    target->qs = qtest_pc_boot("-incoming defer "
                               "-device virtio-balloon-pci,id=b,addr=04.0,%s,%s",
                               b->modern ? "disable-legacy=on" :
                               "disable-modern=on", options);
    target->qts = target->qs->qts;
    qtest_qmp_assert_success(target->qts, "{ 'execute': 'migrate-incoming',"
                             " 'arguments': { 'uri': %s,"
                             " 'exit-on-error': false } }", uri);
    wait_migration(target->qts, status);
    unlink(path);
    return target;
}

static void test_migrate_all(const void *transport)
{
    Balloon *b = start_negotiated(transport);
    Balloon *target;
    int64_t left;

    set_lease(b->qts, 100, 3600000);
    write_config(b, APPLIED_OFFSET, 100);
    target = move_to(b, ON ",report-delay-ms=7", "completed");
    g_assert_true(query_bool(target->qts, "negotiated"));
    g_assert_cmpint(query_int(target->qts, "requested-ms"), ==, 100);
    g_assert_cmpint(query_int(target->qts, "applied-ms"), ==, 100);
    left = query_int(target->qts, "lease-left-ms");
    g_assert_cmpint(left, >, 3000000);
    g_assert_cmpint(left, <=, 3600000);

    /* The driver's next write elsewhere is no answer, nor is the same again. */
    find_device_again(target);
    write_config(target, ACTUAL_OFFSET, 1);
    write_config(target, APPLIED_OFFSET, 100);
    g_assert_cmpint(query_int(target->qts, "applied-ms"), ==, 100);
    assert_no_event(target->qts);
    stop(target);
    stop(b);
}

static void test_migrate_no_request(const void *transport)
{
    Balloon *b = start_negotiated(transport);
    Balloon *target;

    write_config(b, APPLIED_OFFSET, 2000);
    target = move_to(b, ON ",report-delay-ms=7", "completed");
    g_assert_cmpint(query_int(target->qts, "requested-ms"), ==, -1);
    g_assert_cmpint(query_int(target->qts, "applied-ms"), ==, 2000);
    g_assert_cmpint(query_int(target->qts, "lease-left-ms"), ==, -1);
    stop(target);
    stop(b);
}

/* Withdrawn before there was a driver: not asked for by the target either. */
static void test_migrate_withdrawn(const void *transport)
{
    Balloon *b = start(transport, ON ",report-delay-ms=300");
    Balloon *target;

    withdraw(b->qts);
    target = move_to(b, ON ",report-delay-ms=300", "completed");
    g_assert_cmpint(query_int(target->qts, "requested-ms"), ==, -1);
    stop(target);
    stop(b);
}

/* A request that nobody could withdraw any more is refused. */
static void test_migrate_not_offered(const void *transport)
{
    Balloon *b = start(transport, ON);
    Balloon *target;

    set_delay(b->qts, 100);
    target = move_to(b, "free-page-reporting=on", "failed");
    stop(target);
    stop(b);
}

static void test_migrate_before_driver(const void *transport)
{
    Balloon *b = start(transport, ON);
    Balloon *target;

    set_delay(b->qts, 100);
    target = move_to(b, ON, "completed");
    g_assert_false(query_bool(target->qts, "negotiated"));
    g_assert_cmpint(query_int(target->qts, "requested-ms"), ==, 100);
    g_assert_cmpint(query_int(target->qts, "applied-ms"), ==, -1);
    stop(target);
    stop(b);
}

/* To a machine that does not offer what the driver has: the source goes on. */
static void test_migrate_refused(const void *transport)
{
    Balloon *b = start_negotiated(transport);
    Balloon *target;

    set_delay(b->qts, 100);
    write_config(b, APPLIED_OFFSET, 100);
    target = move_to(b, "free-page-reporting=on", "failed");
    stop(target);
    qtest_qmp_assert_success(b->qts, "{ 'execute': 'cont' }");
    g_assert_cmpint(query_int(b->qts, "applied-ms"), ==, 100);
    set_delay(b->qts, 200);
    g_assert_true(config_interrupt(b));
    stop(b);
}

/* A snapshot brings back what was asked and answered when it was taken. */
static void test_savevm(const void *transport)
{
    g_autofree char *path = NULL;
    g_autofree char *machine = NULL;
    g_autofree char *text = NULL;
    int fd = g_file_open_tmp("balloon-report-XXXXXX", &path, NULL);
    Balloon *b;

    g_assert_cmpint(fd, >=, 0);
    close(fd);
    mkqcow2(path, 256);
    machine = g_strdup_printf("-drive if=none,file=%s,format=qcow2", path);
    b = start_machine(transport, ON, machine);
    negotiate(b, 0);
    set_lease(b->qts, 100, 3600000);
    write_config(b, APPLIED_OFFSET, 100);
    text = qtest_hmp(b->qts, "savevm here");
    g_assert_cmpstr(text, ==, "");

    withdraw(b->qts);
    qvirtio_start_device(&b->dev->vdev);
    g_free(text);
    text = qtest_hmp(b->qts, "loadvm here");
    g_assert_cmpstr(text, ==, "");
    g_assert_true(query_bool(b->qts, "negotiated"));
    g_assert_cmpint(query_int(b->qts, "requested-ms"), ==, 100);
    g_assert_cmpint(query_int(b->qts, "applied-ms"), ==, 100);
    g_assert_cmpint(query_int(b->qts, "lease-left-ms"), >, 3000000);
    stop(b);
    unlink(path);
}

static void test_inhibited_by_snapshot(const void *transport)
{
    Balloon *b = start(transport, ON);
    QVirtQueue *vq = start_reporting(b, POISON_BIT);
    QDict *response;

    response = qtest_qmp(b->qts, "{ 'execute': 'migrate-set-capabilities',"
                         " 'arguments': { 'capabilities': [ {"
                         " 'capability': 'background-snapshot',"
                         " 'state': true } ] } }");
    if (qdict_haskey(response, "error")) {
        g_test_skip("no background snapshots: userfaultfd write protection "
                    "is not to be had here");
        qobject_unref(response);
        report_and_stop(b, vq);
        return;
    }
    qobject_unref(response);

    /* Too slow to end by itself. */
    qtest_qmp_assert_success(b->qts, "{ 'execute': 'migrate-set-parameters',"
                             " 'arguments': { 'max-bandwidth': 4096 } }");
    qtest_qmp_assert_success(b->qts, "{ 'execute': 'migrate', 'arguments': {"
                             " 'uri': 'exec:cat >/dev/null' } }");
    wait_migration(b->qts, "active");
    g_assert_true(query_bool(b->qts, "inhibited"));
    report(b, vq, BLOCK_ADDR, BLOCK_SIZE);
    g_assert_cmphex(qtest_readb(b->qts, BLOCK_ADDR + 12345), ==, PATTERN);
    assert_counters(b->qts, 1, BLOCK_SIZE, 0);
    qtest_qmp_assert_success(b->qts, "{ 'execute': 'migrate_cancel' }");
    wait_migration(b->qts, "cancelled");
    g_assert_false(query_bool(b->qts, "inhibited"));
    report_and_stop(b, vq);
}

/* A target whose memory is still to come keeps what its guest reports. */
static void test_inhibited_by_postcopy(void)
{
    Balloon *b = start_negotiated("modern");
    g_autofree char *dir = g_dir_make_tmp("balloon-report-XXXXXX", NULL);
    g_autofree char *uri = g_strdup_printf("unix:%s/migration", dir);
    QTestState *target = qtest_initf("-incoming defer -machine pc "
                                     "-device virtio-balloon-pci,id=b,addr=04.0,"
                                     "disable-legacy=on," ON);
    QTestState *both[] = { b->qts, target };

    for (int i = 0; i < ARRAY_SIZE(both); i++) {
        QDict *response = qtest_qmp(both[i],
            "{ 'execute': 'migrate-set-capabilities', 'arguments': {"
            " 'capabilities': [ { 'capability': 'postcopy-ram',"
            " 'state': true } ] } }");
        bool there = !qdict_haskey(response, "error");

        qobject_unref(response);
        if (!there) {
            g_test_skip("no postcopy: userfaultfd is not to be had here");
            goto out;
        }
    }
    qtest_qmp_assert_success(target, "{ 'execute': 'migrate-incoming',"
                             " 'arguments': { 'uri': %s } }", uri);
    /* Something to move, and too slowly to be over by itself. */
    qtest_memset(b->qts, BLOCK_ADDR, PATTERN, BLOCK_SIZE);
    qtest_qmp_assert_success(b->qts, "{ 'execute': 'migrate-set-parameters',"
                             " 'arguments': { 'max-bandwidth': 65536,"
                             " 'max-postcopy-bandwidth': 65536 } }");
    qtest_qmp_assert_success(b->qts, "{ 'execute': 'migrate',"
                             " 'arguments': { 'uri': %s } }", uri);
    wait_migration(b->qts, "active");
    g_assert_false(query_bool(target, "inhibited"));
    qtest_qmp_assert_success(b->qts, "{ 'execute': 'migrate-start-postcopy' }");
    wait_migration(b->qts, "postcopy-active");
    wait_migration(target, "postcopy-active");
    g_assert_true(query_bool(target, "inhibited"));
out:
    qtest_quit(target);
    stop(b);
    unlink(strchr(uri, ':') + 1);
    rmdir(dir);
}

/* A hostile guest */

/*
 * Any write to any register and config byte, at any width and time: QEMU stays
 * up, and what the host set stays as it is.
 */
static void test_hostile_writes(const void *transport)
{
    Balloon *b = start_negotiated(transport);
    GRand *rand = g_rand_new_with_seed(1);

    set_lease(b->qts, 100, 3600000);
    for (int i = 0; i < 20000; i++) {
        QPCIDevice *pdev = b->dev->pdev;
        uint64_t offset = g_rand_int_range(rand, 0, 60);
        uint32_t value = g_rand_int(rand) >> g_rand_int_range(rand, 0, 32);

        if (b->modern) {
            /* Common, isr, device and notify structures, a page each. */
            offset += g_rand_int_range(rand, 0, 4) * 0x1000;
        }
        switch (g_rand_int_range(rand, 0, 6)) {
        case 0:
            qpci_io_writeb(pdev, b->dev->bar, offset, value);
            break;
        case 1:
            qpci_io_writew(pdev, b->dev->bar, offset, value);
            break;
        case 2:
            qpci_io_writel(pdev, b->dev->bar, offset, value);
            break;
        case 3:
            qpci_io_readl(pdev, b->dev->bar, offset);
            break;
        case 4:
            write_byte(b, g_rand_int_range(rand, 0, 28), value);
            break;
        default:
            write_config(b, g_rand_int_range(rand, 0, 28), value);
            break;
        }
        if (i % 1000 == 0) {
            g_assert_cmpint(query_int(b->qts, "applied-ms"), <=, 600000);
            g_assert_cmpint(query_int(b->qts, "requested-ms"), ==, 100);
        }
    }
    g_rand_free(rand);

    g_assert_cmpint(query_int(b->qts, "lease-left-ms"), >, 0);
    /* A well-behaved driver after it finds a device that works. */
    qvirtio_start_device(&b->dev->vdev);
    negotiate(b, 0);
    write_config(b, APPLIED_OFFSET, 100);
    g_assert_cmpint(query_int(b->qts, "applied-ms"), ==, 100);
    stop(b);
}

/* Reports that point anywhere, and a reset with reports in the queue. */
static void test_hostile_reports(const void *transport)
{
    static const struct {
        uint64_t addr;
        uint32_t size;
    } bad[] = {
        { 0, 0 }, { BLOCK_ADDR, 0 }, { 0xfee00000, 4096 },
        { ~0ull - 4095, 4096 },
        { 127 * 1024 * 1024, 4 * 1024 * 1024 }, { 1ull << 40, 0xffffffff },
        { 0xa0000, 0x20000 }, { 0xfffc0000, 4096 },
    };

    for (int i = 0; i < ARRAY_SIZE(bad); i++) {
        Balloon *b = start(transport, ON);
        QVirtQueue *vq = start_reporting(b, POISON_BIT);
        uint32_t head = qvirtqueue_add(b->qts, vq, bad[i].addr, bad[i].size,
                                       true, false);

        qvirtqueue_kick(b->qts, &b->dev->vdev, vq, head);
        qvirtio_reset(&b->dev->vdev);
        g_assert_cmpint(query_int(b->qts, "reports"), <=, 1);
        g_assert_cmpint(query_int(b->qts, "discarded-bytes"), <=,
                        query_int(b->qts, "reported-bytes"));
        g_assert_cmphex(qtest_readb(b->qts, BLOCK_ADDR + 12345), ==, PATTERN);
        qvirtqueue_cleanup(b->dev->vdev.bus, vq, &b->qs->alloc);

        qvirtio_start_device(&b->dev->vdev);
        vq = start_reporting(b, POISON_BIT);
        report(b, vq, BLOCK_ADDR, BLOCK_SIZE);
        g_assert_cmphex(qtest_readb(b->qts, BLOCK_ADDR + 12345), ==, 0);
        report_and_stop(b, vq);
    }
}

/* virtio-mmio, by hand: microvm has no libqos */

#define MMIO_BASE 0xfeb00000ull
#define MMIO_STRIDE 512
#define MMIO_COUNT 24

static uint64_t find_mmio(QTestState *qts)
{
    for (int i = 0; i < MMIO_COUNT; i++) {
        uint64_t base = MMIO_BASE + i * MMIO_STRIDE;

        if (qtest_readl(qts, base + VIRTIO_MMIO_DEVICE_ID) ==
            VIRTIO_ID_BALLOON) {
            return base;
        }
    }
    g_assert_not_reached();
}

static void test_mmio(const void *version)
{
    bool legacy = !strcmp(version, "legacy");
    QTestState *qts = qtest_initf("-M microvm,acpi=off -global "
                                  "virtio-mmio.force-legacy=%s "
                                  "-device virtio-balloon-device," ON,
                                  legacy ? "on" : "off");
    uint64_t base = find_mmio(qts), config = base + VIRTIO_MMIO_CONFIG;
    uint32_t features;

    qtest_writel(qts, base + VIRTIO_MMIO_STATUS, 0);
    qtest_writel(qts, base + VIRTIO_MMIO_STATUS,
                 VIRTIO_CONFIG_S_ACKNOWLEDGE | VIRTIO_CONFIG_S_DRIVER);
    features = qtest_readl(qts, base + VIRTIO_MMIO_DEVICE_FEATURES);
    g_assert_cmphex(features & report_bits, ==, report_bits);
    qtest_writel(qts, base + VIRTIO_MMIO_DRIVER_FEATURES_SEL, 0);
    qtest_writel(qts, base + VIRTIO_MMIO_DRIVER_FEATURES, report_bits);
    if (!legacy) {
        qtest_writel(qts, base + VIRTIO_MMIO_DRIVER_FEATURES_SEL, 1);
        qtest_writel(qts, base + VIRTIO_MMIO_DRIVER_FEATURES, 1);
        qtest_writel(qts, base + VIRTIO_MMIO_STATUS,
                     VIRTIO_CONFIG_S_ACKNOWLEDGE | VIRTIO_CONFIG_S_DRIVER |
                     VIRTIO_CONFIG_S_FEATURES_OK);
    }
    qtest_writel(qts, base + VIRTIO_MMIO_STATUS,
                 VIRTIO_CONFIG_S_ACKNOWLEDGE | VIRTIO_CONFIG_S_DRIVER |
                 (legacy ? 0 : VIRTIO_CONFIG_S_FEATURES_OK) |
                 VIRTIO_CONFIG_S_DRIVER_OK);
    g_assert_true(query_bool(qts, "negotiated"));

    set_delay(qts, 0x12345);
    g_assert_cmphex(qtest_readl(qts, base + VIRTIO_MMIO_INTERRUPT_STATUS) &
                    VIRTIO_MMIO_INT_CONFIG, ==, VIRTIO_MMIO_INT_CONFIG);
    g_assert_cmphex(qtest_readl(qts, config + REQUEST_OFFSET), ==, 0x12345);
    for (int i = 0; i < 4; i++) {
        if (legacy) {
            qtest_writeb(qts, config + APPLIED_OFFSET + i, 0x12345 >> (8 * i));
        }
    }
    if (!legacy) {
        qtest_writel(qts, config + APPLIED_OFFSET, 0x12345);
    }
    g_assert_cmpint(query_int(qts, "applied-ms"), ==, 0x12345);
    qtest_quit(qts);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);

    add_transports("reports/discarded-and-counted", test_counted);
    add_transports("reports/kept-when-poisoned", test_poison);
    add_transports("reports/unaligned-not-discarded", test_unaligned);
    add_transports("reports/failed-discard-not-counted", test_failed_discard);
    add_transports("reports/shared-memory-discarded", test_shared_memory);
    add_transports("reports/kept-during-background-snapshot",
                   test_inhibited_by_snapshot);
    add_transports("state/request-outlives-system-reset", test_system_reset);
    add_transports("state/unplug-drops-all", test_unplug);
    qtest_add_func("balloon-report/state/second-balloon-refused",
                   test_second_balloon);
    add_transports("migration/request-answer-and-lease", test_migrate_all);
    add_transports("migration/no-request-replaces-start-value",
                   test_migrate_no_request);
    add_transports("migration/withdrawn-stays-withdrawn",
                   test_migrate_withdrawn);
    add_transports("migration/refused-where-not-offered",
                   test_migrate_not_offered);
    add_transports("migration/before-the-driver", test_migrate_before_driver);
    if (have_qemu_img()) {
        add_transports("migration/savevm-loadvm", test_savevm);
    }
    add_transports("migration/refused-without-the-feature",
                   test_migrate_refused);
    qtest_add_func("balloon-report/modern/reports/kept-during-postcopy",
                   test_inhibited_by_postcopy);
    add_transports("hostile/any-register-write", test_hostile_writes);
    add_transports("hostile/any-report", test_hostile_reports);
    if (qtest_has_machine("microvm")) {
        qtest_add_data_func("balloon-report/mmio/modern", "modern", test_mmio);
        qtest_add_data_func("balloon-report/mmio/legacy", "legacy", test_mmio);
    }

    return g_test_run();
}
