// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of the balloon driver's report delay against a device that
 * misbehaves. The device is a transport of our own: a config space in memory,
 * and queues whose every buffer is used at once.
 */
#include <kunit/device.h>
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/page_reporting.h>
#include <linux/spinlock.h>
#include <linux/unaligned.h>
#include <linux/virtio.h>
#include <linux/virtio_balloon.h>
#include <linux/virtio_config.h>
#include <linux/virtio_ring.h>

#define TEST_OWN_MS	300000
/* How long an answer may take on a loaded machine */
#define TEST_PATIENCE	(10 * HZ)

#define TEST_REQUESTED	offsetof(struct virtio_balloon_config, report_delay_ms)
#define TEST_APPLIED	offsetof(struct virtio_balloon_config, \
				 report_delay_applied_ms)
#define TEST_NONE	VIRTIO_BALLOON_REPORT_DELAY_NONE
#define TEST_FEATURES	(BIT_ULL(VIRTIO_F_VERSION_1) | \
			 BIT_ULL(VIRTIO_BALLOON_F_REPORTING) | \
			 BIT_ULL(VIRTIO_BALLOON_F_REPORT_DELAY))

struct balloon_test {
	struct virtio_device vdev;
	struct device *parent;
	u64 offered;
	u8 status;
	/* What find_vqs() returns */
	int vqs_err;
	bool plugged;
	struct completion released;
	/* Another reporting device, which fails */
	struct page_reporting_dev_info other;

	/* Guards what follows */
	spinlock_t lock;
	u8 config[sizeof(struct virtio_balloon_config)];
	/* Each read of the request sees another value */
	bool torn;
	/* Reads and writes of the report delay's fields */
	unsigned int reads;
	unsigned int writes;
	/* Writes of "none" to the field that the driver answers in */
	unsigned int writes_none;
};

static struct balloon_test *to_test(struct virtio_device *vdev)
{
	return container_of(vdev, struct balloon_test, vdev);
}

static void balloon_test_get(struct virtio_device *vdev, unsigned int offset,
			     void *buf, unsigned int len)
{
	struct balloon_test *t = to_test(vdev);
	unsigned long flags;

	spin_lock_irqsave(&t->lock, flags);
	if (offset + len > TEST_REQUESTED)
		t->reads++;
	if (t->torn && offset == TEST_REQUESTED)
		t->config[TEST_REQUESTED]++;
	memcpy(buf, t->config + offset, len);
	spin_unlock_irqrestore(&t->lock, flags);
}

static void balloon_test_set(struct virtio_device *vdev, unsigned int offset,
			     const void *buf, unsigned int len)
{
	struct balloon_test *t = to_test(vdev);
	unsigned long flags;

	spin_lock_irqsave(&t->lock, flags);
	memcpy(t->config + offset, buf, len);
	if (offset + len > TEST_REQUESTED)
		t->writes++;
	if (offset == TEST_APPLIED &&
	    get_unaligned_le32(t->config + TEST_APPLIED) == TEST_NONE)
		t->writes_none++;
	spin_unlock_irqrestore(&t->lock, flags);
}

static u8 balloon_test_get_status(struct virtio_device *vdev)
{
	return to_test(vdev)->status;
}

static void balloon_test_set_status(struct virtio_device *vdev, u8 status)
{
	to_test(vdev)->status = status;
}

static void balloon_test_reset(struct virtio_device *vdev)
{
	to_test(vdev)->status = 0;
}

static u64 balloon_test_get_features(struct virtio_device *vdev)
{
	return to_test(vdev)->offered;
}

static int balloon_test_finalize_features(struct virtio_device *vdev)
{
	return 0;
}

/* Use what is available, as a device does; called by the driver's kick */
static bool balloon_test_notify(struct virtqueue *vq)
{
	const struct vring *vring = virtqueue_get_vring(vq);
	struct virtio_device *vdev = vq->vdev;
	u16 used = virtio16_to_cpu(vdev, vring->used->idx);
	__virtio16 head;
	u16 slot;

	while (used != virtio16_to_cpu(vdev, READ_ONCE(vring->avail->idx))) {
		slot = used++ % vring->num;
		head = vring->avail->ring[slot];
		vring->used->ring[slot].id =
			cpu_to_virtio32(vdev, virtio16_to_cpu(vdev, head));
		vring->used->ring[slot].len = 0;
	}
	/* Pairs with the driver's barrier between the index and the ring */
	smp_wmb();
	vring->used->idx = cpu_to_virtio16(vdev, used);
	vring_interrupt(0, vq);

	return true;
}

static void balloon_test_del_vqs(struct virtio_device *vdev)
{
	struct virtqueue *vq, *next;

	list_for_each_entry_safe(vq, next, &vdev->vqs, list)
		vring_del_virtqueue(vq);
}

static int balloon_test_find_vqs(struct virtio_device *vdev, unsigned int nvqs,
				 struct virtqueue *vqs[],
				 struct virtqueue_info vqs_info[],
				 struct irq_affinity *desc)
{
	struct balloon_test *t = to_test(vdev);
	unsigned int i, index = 0;

	if (t->vqs_err)
		return t->vqs_err;

	for (i = 0; i < nvqs; i++) {
		vqs[i] = NULL;
		if (!vqs_info[i].name)
			continue;
		vqs[i] = vring_create_virtqueue(index++, 64, PAGE_SIZE, vdev,
						false, false, false,
						balloon_test_notify,
						vqs_info[i].callback,
						vqs_info[i].name);
		if (!vqs[i]) {
			balloon_test_del_vqs(vdev);
			return -ENOMEM;
		}
	}

	return 0;
}

static const struct virtio_config_ops balloon_test_ops = {
	.get = balloon_test_get,
	.set = balloon_test_set,
	.get_status = balloon_test_get_status,
	.set_status = balloon_test_set_status,
	.reset = balloon_test_reset,
	.find_vqs = balloon_test_find_vqs,
	.del_vqs = balloon_test_del_vqs,
	.get_features = balloon_test_get_features,
	.finalize_features = balloon_test_finalize_features,
};

static void balloon_test_release(struct device *dev)
{
	complete(&to_test(dev_to_virtio(dev))->released);
}

/* Plug the device in; whether the driver has taken it */
static bool balloon_test_plug(struct kunit *test)
{
	struct balloon_test *t = test->priv;

	memset(&t->vdev, 0, sizeof(t->vdev));
	t->vdev.id.device = VIRTIO_ID_BALLOON;
	t->vdev.config = &balloon_test_ops;
	t->vdev.dev.parent = t->parent;
	t->vdev.dev.release = balloon_test_release;
	reinit_completion(&t->released);
	put_unaligned_le32(TEST_NONE, t->config + TEST_APPLIED);
	KUNIT_ASSERT_EQ(test, register_virtio_device(&t->vdev), 0);
	t->plugged = true;

	return device_is_bound(&t->vdev.dev);
}

static void balloon_test_unplug(struct balloon_test *t)
{
	if (!t->plugged)
		return;
	t->plugged = false;
	unregister_virtio_device(&t->vdev);
	wait_for_completion(&t->released);
}

static u32 balloon_test_applied(struct balloon_test *t)
{
	unsigned long flags;
	u32 applied;

	spin_lock_irqsave(&t->lock, flags);
	applied = get_unaligned_le32(t->config + TEST_APPLIED);
	spin_unlock_irqrestore(&t->lock, flags);

	return applied;
}

/* Ask as a host does; what is in force is unknown until the answer */
static void balloon_test_ask(struct balloon_test *t, u32 delay)
{
	unsigned long flags;

	spin_lock_irqsave(&t->lock, flags);
	put_unaligned_le32(delay, t->config + TEST_REQUESTED);
	put_unaligned_le32(TEST_NONE, t->config + TEST_APPLIED);
	spin_unlock_irqrestore(&t->lock, flags);

	virtio_config_changed(&t->vdev);
}

/* The driver answers that @delay is in force, and so it is */
static void balloon_test_answer(struct kunit *test, u32 delay)
{
	struct balloon_test *t = test->priv;
	unsigned long end = jiffies + TEST_PATIENCE;

	while (balloon_test_applied(t) != delay && time_before(jiffies, end))
		usleep_range(1000, 2000);
	KUNIT_EXPECT_EQ(test, balloon_test_applied(t), delay);
	KUNIT_EXPECT_EQ(test, page_reporting_get_delay(), delay);
}

static int balloon_test_init(struct kunit *test)
{
	struct balloon_test *t;

	t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	if (!t)
		return -ENOMEM;

	test->priv = t;
	spin_lock_init(&t->lock);
	init_completion(&t->released);
	t->offered = TEST_FEATURES;
	put_unaligned_le32(TEST_NONE, t->config + TEST_REQUESTED);
	t->parent = kunit_device_register(test, "balloon_test");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, t->parent);

	return 0;
}

static void balloon_test_exit(struct kunit *test)
{
	balloon_test_unplug(test->priv);
}

/* What is out of range counts as no request: the guest's own delay it is */
static void balloon_test_out_of_range(struct kunit *test)
{
	static const u32 outside[] = { 600001, 0x7fffffff, 0x80000000, 0xfffffffe };
	struct balloon_test *t = test->priv;
	u32 own = page_reporting_get_delay();
	int i;

	KUNIT_ASSERT_TRUE(test, balloon_test_plug(test));
	balloon_test_answer(test, own);

	for (i = 0; i < ARRAY_SIZE(outside); i++) {
		balloon_test_ask(t, 600000 - i);
		balloon_test_answer(test, 600000 - i);
		balloon_test_ask(t, outside[i]);
		balloon_test_answer(test, own);
	}

	/* One that is there at probe is none either. */
	balloon_test_unplug(t);
	KUNIT_ASSERT_TRUE(test, balloon_test_plug(test));
	balloon_test_answer(test, own);
}

/* A thousand changes a second, each tenth out of range; the last one counts */
static void balloon_test_storm(struct kunit *test)
{
	struct balloon_test *t = test->priv;
	u32 own = page_reporting_get_delay();
	int i;

	KUNIT_ASSERT_TRUE(test, balloon_test_plug(test));
	for (i = 0; i < 1000; i++) {
		balloon_test_ask(t, i % 10 ? TEST_OWN_MS + i : TEST_NONE - i - 1);
		usleep_range(900, 1000);
	}
	balloon_test_ask(t, TEST_OWN_MS);
	balloon_test_answer(test, TEST_OWN_MS);

	/* It can be removed in the middle, and the guest has its own back. */
	balloon_test_ask(t, TEST_OWN_MS + 1);
	balloon_test_unplug(t);
	KUNIT_EXPECT_EQ(test, page_reporting_get_delay(), own);
}

/* A legacy device whose field changes with each read is not waited for */
static void balloon_test_torn(struct kunit *test)
{
	struct balloon_test *t = test->priv;
	unsigned int reads;

	t->offered &= ~BIT_ULL(VIRTIO_F_VERSION_1);
	KUNIT_ASSERT_TRUE(test, balloon_test_plug(test));
	balloon_test_ask(t, 5000);
	balloon_test_answer(test, 5000);
	KUNIT_EXPECT_GT(test, t->writes_none, 0);

	reads = t->reads;
	t->torn = true;
	balloon_test_ask(t, 0x100);
	/* What was seen last stays in force. */
	balloon_test_answer(test, 5000);
	KUNIT_EXPECT_GT(test, t->reads - reads, 2);
	KUNIT_EXPECT_LT(test, t->reads - reads, 100);

	t->torn = false;
	balloon_test_ask(t, 7000);
	balloon_test_answer(test, 7000);
}

/* Without free page reporting the feature is dropped, and its fields are left alone */
static void balloon_test_not_negotiated(struct kunit *test)
{
	static const u64 offered[] = {
		BIT_ULL(VIRTIO_F_VERSION_1) | BIT_ULL(VIRTIO_BALLOON_F_REPORT_DELAY),
		BIT_ULL(VIRTIO_F_VERSION_1) | BIT_ULL(VIRTIO_BALLOON_F_REPORTING),
	};
	struct balloon_test *t = test->priv;
	u32 own = page_reporting_get_delay();
	bool negotiated;
	int i;

	for (i = 0; i < ARRAY_SIZE(offered); i++) {
		t->offered = offered[i];
		KUNIT_ASSERT_TRUE(test, balloon_test_plug(test));
		negotiated = virtio_has_feature(&t->vdev,
						VIRTIO_BALLOON_F_REPORT_DELAY);
		KUNIT_EXPECT_FALSE(test, negotiated);
		balloon_test_ask(t, 5);
		balloon_test_unplug(t);
		KUNIT_EXPECT_EQ(test, t->reads, 0);
		KUNIT_EXPECT_EQ(test, t->writes, 0);
		KUNIT_EXPECT_EQ(test, page_reporting_get_delay(), own);
	}
}

static int balloon_test_report(struct page_reporting_dev_info *prdev,
			       struct scatterlist *sg, unsigned int nents)
{
	return -EIO;
}

/* A probe that fails half-way leaves nothing behind, and the next one succeeds */
static void balloon_test_probe_fails(struct kunit *test)
{
	struct balloon_test *t = test->priv;
	u32 own = page_reporting_get_delay();

	put_unaligned_le32(5, t->config + TEST_REQUESTED);

	t->vqs_err = -ENOENT;
	KUNIT_EXPECT_FALSE(test, balloon_test_plug(test));
	balloon_test_unplug(t);
	t->vqs_err = 0;

	/* The device is live by then. */
	t->other.report = balloon_test_report;
	KUNIT_ASSERT_EQ(test, page_reporting_register(&t->other), 0);
	KUNIT_EXPECT_FALSE(test, balloon_test_plug(test));
	balloon_test_unplug(t);
	page_reporting_unregister(&t->other);

	KUNIT_EXPECT_EQ(test, t->writes, 0);
	KUNIT_EXPECT_EQ(test, page_reporting_get_delay(), own);

	KUNIT_ASSERT_TRUE(test, balloon_test_plug(test));
	balloon_test_answer(test, 5);
}

static struct kunit_case balloon_test_cases[] = {
	KUNIT_CASE(balloon_test_out_of_range),
	KUNIT_CASE(balloon_test_storm),
	KUNIT_CASE(balloon_test_torn),
	KUNIT_CASE(balloon_test_not_negotiated),
	KUNIT_CASE(balloon_test_probe_fails),
	{}
};

static struct kunit_suite balloon_test_suite = {
	.name = "virtio_balloon",
	.init = balloon_test_init,
	.exit = balloon_test_exit,
	.test_cases = balloon_test_cases,
};

kunit_test_suite(balloon_test_suite);

MODULE_DESCRIPTION("KUnit tests of the balloon driver's report delay");
MODULE_LICENSE("GPL");
