/* SPDX-License-Identifier: GPL-2.0 */
/*
 * KUnit tests of when page reporting passes run. Included at the end of
 * page_reporting.c, whose state they look at.
 *
 * The tests register a device of their own. It refuses what is reported: then
 * no page is marked as reported, each pass finds something to report, and ends
 * with its first report. Notifications of the page allocator are switched off,
 * so that only a test requests passes.
 */
#include <kunit/test.h>
#include <kunit/static_stub.h>
#include <linux/completion.h>

/* Long enough that nothing is due by itself while a test looks */
#define TEST_OWN_MS	30000
#define TEST_HOST_MS	10000
/* How long a pass that is due may take to run on a loaded machine */
#define TEST_PATIENCE	(10 * HZ)

struct page_reporting_test {
	struct page_reporting_dev_info prdev;
	/* Calls of report(), hence passes when it fails */
	atomic_t passes;
	/* Calls of delay_changed() */
	unsigned int told;
	/* What report() returns */
	int err;
	/* Hold the pass in report() from the one completion to the other */
	bool hold;
	struct completion held;
	struct completion go_on;
};

static int page_reporting_test_report(struct page_reporting_dev_info *prdev,
		struct scatterlist *sg, unsigned int nents)
{
	struct page_reporting_test *t =
		container_of(prdev, struct page_reporting_test, prdev);

	atomic_inc(&t->passes);
	if (READ_ONCE(t->hold)) {
		WRITE_ONCE(t->hold, false);
		complete(&t->held);
		wait_for_completion_timeout(&t->go_on, TEST_PATIENCE);
	}

	return t->err;
}

static void page_reporting_test_delay_changed(struct page_reporting_dev_info *prdev)
{
	container_of(prdev, struct page_reporting_test, prdev)->told++;
}

static int page_reporting_test_state(struct page_reporting_test *t)
{
	return atomic_read(&t->prdev.state);
}

static void page_reporting_test_request(struct page_reporting_test *t)
{
	__page_reporting_request(&t->prdev);
}

static bool page_reporting_test_pending(struct page_reporting_test *t)
{
	return timer_pending(&t->prdev.work.timer);
}

/* When the pending pass is due, in jiffies after it was requested */
static unsigned long page_reporting_test_due(struct page_reporting_test *t)
{
	return t->prdev.work.timer.expires - t->prdev.requested;
}

/* Wait until as many passes have run and the last one has ended */
static void page_reporting_test_wait(struct kunit *test, int passes)
{
	struct page_reporting_test *t = test->priv;
	unsigned long end = jiffies + TEST_PATIENCE;

	while (atomic_read(&t->passes) < passes && time_before(jiffies, end))
		usleep_range(1000, 2000);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->passes), passes);
	while (page_reporting_test_state(t) == PAGE_REPORTING_ACTIVE &&
	       time_before(jiffies, end))
		usleep_range(1000, 2000);
}

/* Get a pass running, and stop it in the middle */
static void page_reporting_test_hold(struct kunit *test)
{
	struct page_reporting_test *t = test->priv;

	t->hold = true;
	page_reporting_test_request(t);
	mod_delayed_work(system_freezable_wq, &t->prdev.work, 0);
	KUNIT_ASSERT_TRUE(test, wait_for_completion_timeout(&t->held,
							    TEST_PATIENCE));
}

static void page_reporting_test_go_on(struct page_reporting_test *t)
{
	complete(&t->go_on);
	flush_work(&t->prdev.work.work);
}

static int page_reporting_test_init(struct kunit *test)
{
	struct page_reporting_test *t;

	t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	if (!t)
		return -ENOMEM;

	test->priv = t;
	init_completion(&t->held);
	init_completion(&t->go_on);
	t->err = -EIO;
	t->prdev.report = page_reporting_test_report;
	t->prdev.delay_changed = page_reporting_test_delay_changed;
	if (page_reporting_register(&t->prdev)) {
		test->priv = NULL;
		kunit_skip(test, "another page reporting device is registered");
	}
	static_branch_disable(&page_reporting_enabled);

	flush_delayed_work(&t->prdev.work);
	page_reporting_set_own_delay(TEST_OWN_MS);
	page_reporting_request_delay(&t->prdev, TEST_HOST_MS);
	flush_delayed_work(&t->prdev.work);
	atomic_set(&t->passes, 0);
	t->told = 0;
	KUNIT_EXPECT_EQ(test, page_reporting_test_state(t), PAGE_REPORTING_IDLE);

	return 0;
}

static void page_reporting_test_exit(struct kunit *test)
{
	struct page_reporting_test *t = test->priv;

	if (!t)
		return;

	complete_all(&t->go_on);
	page_reporting_unregister(&t->prdev);
	page_reporting_set_own_delay(2 * MSEC_PER_SEC);
}

/* What is done to the delay of TEST_HOST_MS, and what is in force then */
static const struct page_reporting_event {
	const char *name;
	unsigned int request_ms;
	unsigned int result_ms;
	bool trigger;
} page_reporting_events[] = {
	{ "shorter", 500, 500 },
	{ "longer", 20000, 20000 },
	{ "same", TEST_HOST_MS, TEST_HOST_MS },
	{ "withdraw", PAGE_REPORTING_DELAY_MS_NONE, TEST_OWN_MS },
	{ "trigger", TEST_HOST_MS, TEST_HOST_MS, true },
};

KUNIT_ARRAY_PARAM_DESC(page_reporting_event, page_reporting_events, name);

static void page_reporting_test_do(struct kunit *test)
{
	const struct page_reporting_event *event = test->param_value;
	struct page_reporting_test *t = test->priv;

	if (event->trigger)
		KUNIT_EXPECT_EQ(test, page_reporting_trigger(), 0);
	else
		KUNIT_EXPECT_EQ(test, page_reporting_request_delay(&t->prdev,
						event->request_ms), 0);
	KUNIT_EXPECT_EQ(test, page_reporting_get_delay(), event->result_ms);
}

static void page_reporting_test_idle(struct kunit *test)
{
	const struct page_reporting_event *event = test->param_value;
	struct page_reporting_test *t = test->priv;

	page_reporting_test_do(test);
	if (event->trigger)
		page_reporting_test_wait(test, 1);

	/* A change alone is no reason for a pass, a trigger is one for one. */
	KUNIT_EXPECT_EQ(test, page_reporting_test_state(t), PAGE_REPORTING_IDLE);
	KUNIT_EXPECT_FALSE(test, delayed_work_pending(&t->prdev.work));
	KUNIT_EXPECT_EQ(test, atomic_read(&t->passes), event->trigger);
}

static void page_reporting_test_pending_pass(struct kunit *test)
{
	const struct page_reporting_event *event = test->param_value;
	struct page_reporting_test *t = test->priv;
	unsigned long requested;

	page_reporting_test_request(t);
	requested = t->prdev.requested;
	KUNIT_EXPECT_EQ(test, page_reporting_test_due(t),
			msecs_to_jiffies(TEST_HOST_MS));

	page_reporting_test_do(test);
	if (event->trigger) {
		page_reporting_test_wait(test, 1);
		KUNIT_EXPECT_FALSE(test, delayed_work_pending(&t->prdev.work));
		return;
	}

	/* Counted from the request: nothing else asks for a pass here. */
	KUNIT_EXPECT_EQ(test, t->prdev.requested, requested);
	if (event->result_ms == 500) {
		page_reporting_test_wait(test, 1);
		KUNIT_EXPECT_GE(test, jiffies - requested, msecs_to_jiffies(500));
		return;
	}
	KUNIT_EXPECT_TRUE(test, page_reporting_test_pending(t));
	KUNIT_EXPECT_EQ(test, page_reporting_test_due(t),
			msecs_to_jiffies(event->result_ms));
	KUNIT_EXPECT_EQ(test, atomic_read(&t->passes), 0);
}

static void page_reporting_test_running(struct kunit *test)
{
	const struct page_reporting_event *event = test->param_value;
	struct page_reporting_test *t = test->priv;

	page_reporting_test_hold(test);
	page_reporting_test_do(test);
	KUNIT_EXPECT_FALSE(test, delayed_work_pending(&t->prdev.work));
	page_reporting_test_go_on(t);

	/* Not doubled; a trigger is served, as the pass has begun before it. */
	page_reporting_test_wait(test, event->trigger ? 2 : 1);
	KUNIT_EXPECT_EQ(test, page_reporting_test_state(t), PAGE_REPORTING_IDLE);
	KUNIT_EXPECT_FALSE(test, delayed_work_pending(&t->prdev.work));
}

/* A pass is asked for while one is running, before or after the event */
static void page_reporting_test_running_requested(struct kunit *test, bool first)
{
	const struct page_reporting_event *event = test->param_value;
	struct page_reporting_test *t = test->priv;

	page_reporting_test_hold(test);
	if (first)
		page_reporting_test_request(t);
	page_reporting_test_do(test);
	if (!first)
		page_reporting_test_request(t);
	page_reporting_test_go_on(t);

	if (event->trigger) {
		page_reporting_test_wait(test, 2);
		KUNIT_EXPECT_EQ(test, page_reporting_test_state(t),
				PAGE_REPORTING_IDLE);
		return;
	}
	KUNIT_EXPECT_EQ(test, page_reporting_test_state(t),
			PAGE_REPORTING_REQUESTED);
	KUNIT_EXPECT_TRUE(test, page_reporting_test_pending(t));
	KUNIT_EXPECT_EQ(test, page_reporting_test_due(t),
			msecs_to_jiffies(event->result_ms));
	KUNIT_EXPECT_EQ(test, atomic_read(&t->passes), 1);
}

static void page_reporting_test_requested_then_changed(struct kunit *test)
{
	page_reporting_test_running_requested(test, true);
}

static void page_reporting_test_changed_then_requested(struct kunit *test)
{
	page_reporting_test_running_requested(test, false);
}

/* The delay that is due already runs the pass now. */
static void page_reporting_test_overdue(struct kunit *test)
{
	struct page_reporting_test *t = test->priv;

	page_reporting_test_request(t);
	msleep(100);
	page_reporting_request_delay(&t->prdev, 50);
	page_reporting_test_wait(test, 1);
}

/*
 * The vCPU that requests a pass is descheduled with the old delay in hand, when
 * the pass is marked as requested and no timer runs yet. What happens elsewhere
 * meanwhile has to win.
 */
static unsigned int page_reporting_test_paused(void)
{
	struct kunit *test = kunit_get_current_test();
	unsigned int old = READ_ONCE(page_reporting_delay_ms);

	kunit_deactivate_static_stub(test, page_reporting_read_delay);
	page_reporting_test_do(test);

	return old;
}

static void page_reporting_test_race(struct kunit *test)
{
	const struct page_reporting_event *event = test->param_value;
	struct page_reporting_test *t = test->priv;

	kunit_activate_static_stub(test, page_reporting_read_delay,
				   page_reporting_test_paused);
	page_reporting_test_request(t);
	KUNIT_EXPECT_EQ(test, page_reporting_get_delay(), event->result_ms);
	if (event->trigger) {
		page_reporting_test_wait(test, 1);
		return;
	}
	KUNIT_EXPECT_TRUE(test, page_reporting_test_pending(t));
	KUNIT_EXPECT_EQ(test, page_reporting_test_due(t),
			msecs_to_jiffies(event->result_ms));
}

/* Delays between 30 and 50 ms that change every millisecond starve no pass. */
static void page_reporting_test_storm(struct kunit *test)
{
	struct page_reporting_test *t = test->priv;
	unsigned long end = jiffies + TEST_PATIENCE;
	unsigned int i;

	page_reporting_request_delay(&t->prdev, 50);
	page_reporting_test_request(t);
	for (i = 0; i < 1000; i++) {
		page_reporting_request_delay(&t->prdev, 30 + i % 21);
		usleep_range(900, 1000);
		if (page_reporting_test_state(t) == PAGE_REPORTING_IDLE)
			page_reporting_test_request(t);
		if (time_after(jiffies, end))
			break;
	}

	/* 1 s and more would have room for 20; half is enough to tell. */
	KUNIT_EXPECT_GE(test, atomic_read(&t->passes), 10);
}

/* Below zone->lock a timer may be started, but no worker woken. */
static void page_reporting_test_free_path(struct kunit *test)
{
	struct page_reporting_test *t = test->priv;
	unsigned long flags;

	page_reporting_request_delay(&t->prdev, 0);
	local_irq_save(flags);
	page_reporting_test_request(t);
	KUNIT_EXPECT_TRUE(test, page_reporting_test_pending(t));
	KUNIT_EXPECT_EQ(test, page_reporting_test_due(t), 1);
	local_irq_restore(flags);
	page_reporting_test_wait(test, 1);
}

static void page_reporting_test_who_wins(struct kunit *test)
{
	struct page_reporting_test *t = test->priv;
	struct page_reporting_dev_info *prdev = &t->prdev;

	/* The guest overrides the host, and tells the driver of it. */
	KUNIT_EXPECT_EQ(test, page_reporting_set_own_delay(3000), 0);
	KUNIT_EXPECT_EQ(test, page_reporting_get_delay(), 3000);
	KUNIT_EXPECT_EQ(test, t->told, 1);
	/* The host overrides the guest; its driver knows that. */
	page_reporting_request_delay(prdev, 400);
	KUNIT_EXPECT_EQ(test, page_reporting_get_delay(), 400);
	KUNIT_EXPECT_EQ(test, t->told, 1);
	/* What is in force already is the guest's own now, and no news. */
	page_reporting_set_own_delay(400);
	KUNIT_EXPECT_EQ(test, t->told, 1);
	page_reporting_request_delay(prdev, 500);
	page_reporting_request_delay(prdev, PAGE_REPORTING_DELAY_MS_NONE);
	KUNIT_EXPECT_EQ(test, page_reporting_get_delay(), 400);
	/* Out of range is no request. */
	page_reporting_request_delay(prdev, 500);
	page_reporting_request_delay(prdev, PAGE_REPORTING_DELAY_MS_MAX + 1);
	KUNIT_EXPECT_EQ(test, page_reporting_get_delay(), 400);
	/* A request goes with its device. */
	page_reporting_request_delay(prdev, 500);
	page_reporting_test_request(t);
	page_reporting_unregister(prdev);
	KUNIT_EXPECT_EQ(test, page_reporting_get_delay(), 400);
	KUNIT_EXPECT_FALSE(test, delayed_work_pending(&prdev->work));
	KUNIT_EXPECT_EQ(test, page_reporting_request_delay(prdev, 600), -ENODEV);
	KUNIT_EXPECT_EQ(test, page_reporting_trigger(), -ENODEV);
	KUNIT_EXPECT_EQ(test, page_reporting_get_delay(), 400);
}

static int page_reporting_test_sysctl(const struct ctl_table *table,
		const char *text, loff_t pos)
{
	char buffer[32];
	size_t len = strscpy(buffer, text, sizeof(buffer));

	return table->proc_handler(table, 1, buffer, &len, &pos);
}

static void page_reporting_test_bounds(struct kunit *test)
{
	static const struct {
		const char *text;
		int err;
		unsigned int ms;
	} values[] = {
		{ "0\n", 0, 0 },
		{ "600000\n", 0, 600000 },
		{ "17\n", 0, 17 },
		{ "600001\n", -EINVAL, 17 },
		{ "4294967295\n", -EINVAL, 17 },
		{ "-1\n", -EINVAL, 17 },
		{ "17x\n", -EINVAL, 17 },
		{ "\n", -EINVAL, 17 },
	};
	const struct ctl_table *table = &page_reporting_sysctls[0];
	unsigned int i;
	int err;

	for (i = 0; i < ARRAY_SIZE(values); i++) {
		err = page_reporting_test_sysctl(table, values[i].text, 0);
		KUNIT_EXPECT_EQ_MSG(test, err, values[i].err, "sysctl %s",
				    values[i].text);
		KUNIT_EXPECT_EQ(test, page_reporting_get_delay(), values[i].ms);
		err = page_reporting_delay_param_set(values[i].text, NULL);
		KUNIT_EXPECT_EQ_MSG(test, err, values[i].err, "parameter %s",
				    values[i].text);
		KUNIT_EXPECT_EQ(test, page_reporting_get_delay(), values[i].ms);
	}

	/* No value: nothing is done, and the host's does not become our own. */
	KUNIT_EXPECT_EQ(test, page_reporting_test_sysctl(table, "", 0), 0);
	KUNIT_EXPECT_EQ(test, page_reporting_test_sysctl(table, "99\n", 3), 0);
	KUNIT_EXPECT_EQ(test, page_reporting_get_delay(), 17);
	KUNIT_EXPECT_EQ(test, page_reporting_own_delay_ms, 17);
}

static void page_reporting_test_trigger_bounds(struct kunit *test)
{
	const struct ctl_table *table = &page_reporting_sysctls[1];
	struct page_reporting_test *t = test->priv;
	static const char * const bad[] = { "0\n", "2\n", "-1\n", "x\n", "\n" };
	unsigned int i;

	page_reporting_test_request(t);
	for (i = 0; i < ARRAY_SIZE(bad); i++)
		KUNIT_EXPECT_EQ_MSG(test,
				    page_reporting_test_sysctl(table, bad[i], 0),
				    -EINVAL, "trigger %s", bad[i]);
	KUNIT_EXPECT_EQ(test, page_reporting_test_sysctl(table, "", 0), 0);
	KUNIT_EXPECT_EQ(test, t->prdev.triggered, 0);
	KUNIT_EXPECT_EQ(test, page_reporting_test_due(t),
			msecs_to_jiffies(TEST_HOST_MS));
	KUNIT_EXPECT_EQ(test, page_reporting_test_sysctl(table, "1\n", 0), 0);
	page_reporting_test_wait(test, 1);
}

/* A delay that is set behind a trigger does not put the pass off. */
static void page_reporting_test_trigger_first(struct kunit *test)
{
	struct page_reporting_test *t = test->priv;

	page_reporting_test_request(t);
	page_reporting_trigger();
	page_reporting_request_delay(&t->prdev, PAGE_REPORTING_DELAY_MS_MAX);
	page_reporting_test_wait(test, 1);
}

/* The passes of a trigger end, however much is left to report. */
static void page_reporting_test_trigger_ends(struct kunit *test)
{
	struct page_reporting_test *t = test->priv;
	unsigned int passes;

	page_reporting_trigger();
	for (passes = 0; passes < 100; passes++) {
		/* Whoever frees memory all the time asks in each pass. */
		t->hold = true;
		if (!wait_for_completion_timeout(&t->held, HZ))
			break;
		page_reporting_test_request(t);
		complete(&t->go_on);
	}
	KUNIT_EXPECT_GE(test, passes, PAGE_REPORTING_TRIGGER_PASSES);
	KUNIT_EXPECT_LE(test, passes, PAGE_REPORTING_TRIGGER_PASSES + 1);
	/* The next one waits for the delay again. */
	KUNIT_EXPECT_TRUE(test, page_reporting_test_pending(t));
	KUNIT_EXPECT_EQ(test, page_reporting_test_due(t),
			msecs_to_jiffies(TEST_HOST_MS));
	KUNIT_EXPECT_EQ(test, page_reporting_get_delay(), TEST_HOST_MS);
}

static struct kunit_case page_reporting_test_cases[] = {
	KUNIT_CASE_PARAM(page_reporting_test_idle, page_reporting_event_gen_params),
	KUNIT_CASE_PARAM(page_reporting_test_pending_pass,
			 page_reporting_event_gen_params),
	KUNIT_CASE_PARAM(page_reporting_test_running,
			 page_reporting_event_gen_params),
	KUNIT_CASE_PARAM(page_reporting_test_requested_then_changed,
			 page_reporting_event_gen_params),
	KUNIT_CASE_PARAM(page_reporting_test_changed_then_requested,
			 page_reporting_event_gen_params),
	KUNIT_CASE_PARAM(page_reporting_test_race,
			 page_reporting_event_gen_params),
	KUNIT_CASE(page_reporting_test_overdue),
	KUNIT_CASE(page_reporting_test_storm),
	KUNIT_CASE(page_reporting_test_free_path),
	KUNIT_CASE(page_reporting_test_who_wins),
	KUNIT_CASE(page_reporting_test_bounds),
	KUNIT_CASE(page_reporting_test_trigger_bounds),
	KUNIT_CASE(page_reporting_test_trigger_first),
	KUNIT_CASE(page_reporting_test_trigger_ends),
	{}
};

static struct kunit_suite page_reporting_test_suite = {
	.name = "page_reporting",
	.init = page_reporting_test_init,
	.exit = page_reporting_test_exit,
	.test_cases = page_reporting_test_cases,
};

kunit_test_suite(page_reporting_test_suite);
