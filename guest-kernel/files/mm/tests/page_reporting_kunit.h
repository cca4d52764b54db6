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
#include <linux/kthread.h>

/* Far longer than a test waits: no pass is due unless a test makes it so */
#define TEST_OWN_MS	300000
#define TEST_HOST_MS	200000
#define TEST_LONGER_MS	250000
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
	/* The system's delay before the test */
	unsigned int own_ms;
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

/*
 * The pass is due @ms after it was requested. What has been re-armed is so to
 * the jiffy; else a tick may have come between two readings of the clock.
 */
static void page_reporting_test_due(struct kunit *test, unsigned int ms,
		bool rearmed)
{
	struct page_reporting_test *t = test->priv;
	unsigned long due = t->prdev.work.timer.expires - t->prdev.requested;

	KUNIT_EXPECT_GE(test, due, msecs_to_jiffies(ms));
	KUNIT_EXPECT_LE(test, due, msecs_to_jiffies(ms) + !rearmed);
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

	/* Its pages are marked, which the allocator must not be blind to. */
	if (static_key_enabled(&page_reporting_enabled))
		kunit_skip(test, "a page reporting device has been registered");

	t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	if (!t)
		return -ENOMEM;

	test->priv = t;
	init_completion(&t->held);
	init_completion(&t->go_on);
	t->err = -EIO;
	t->prdev.report = page_reporting_test_report;
	t->prdev.delay_changed = page_reporting_test_delay_changed;
	t->own_ms = page_reporting_own_delay_ms;
	KUNIT_ASSERT_EQ(test, page_reporting_register(&t->prdev), 0);
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
	page_reporting_set_own_delay(t->own_ms);
}

/* What is done to the delay of TEST_HOST_MS, and what is in force then */
static const struct page_reporting_event {
	const char *name;
	enum { TEST_HOST, TEST_GUEST, TEST_TRIGGER } by;
	unsigned int request_ms;
	unsigned int result_ms;
} page_reporting_events[] = {
	{ "shorter", TEST_HOST, 500, 500 },
	{ "longer", TEST_HOST, TEST_LONGER_MS, TEST_LONGER_MS },
	{ "same", TEST_HOST, TEST_HOST_MS, TEST_HOST_MS },
	{ "withdraw", TEST_HOST, PAGE_REPORTING_DELAY_MS_NONE, TEST_OWN_MS },
	{ "guest shorter", TEST_GUEST, 500, 500 },
	{ "guest longer", TEST_GUEST, TEST_LONGER_MS, TEST_LONGER_MS },
	{ "trigger", TEST_TRIGGER, TEST_HOST_MS, TEST_HOST_MS },
};

KUNIT_ARRAY_PARAM_DESC(page_reporting_event, page_reporting_events, name);

static void page_reporting_test_do(struct kunit *test)
{
	const struct page_reporting_event *event = test->param_value;
	struct page_reporting_test *t = test->priv;

	int err;

	if (event->by == TEST_TRIGGER)
		err = page_reporting_trigger();
	else if (event->by == TEST_GUEST)
		err = page_reporting_set_own_delay(event->request_ms);
	else
		err = page_reporting_request_delay(&t->prdev, event->request_ms);
	KUNIT_EXPECT_EQ(test, err, 0);
	KUNIT_EXPECT_EQ(test, page_reporting_get_delay(), event->result_ms);
}

static void page_reporting_test_idle(struct kunit *test)
{
	const struct page_reporting_event *event = test->param_value;
	struct page_reporting_test *t = test->priv;

	page_reporting_test_do(test);
	if (event->by == TEST_TRIGGER)
		page_reporting_test_wait(test, 1);

	/* A change alone is no reason for a pass, a trigger is one for one. */
	KUNIT_EXPECT_EQ(test, page_reporting_test_state(t), PAGE_REPORTING_IDLE);
	KUNIT_EXPECT_FALSE(test, delayed_work_pending(&t->prdev.work));
	KUNIT_EXPECT_EQ(test, atomic_read(&t->passes), event->by == TEST_TRIGGER);
}

static void page_reporting_test_pending_pass(struct kunit *test)
{
	const struct page_reporting_event *event = test->param_value;
	struct page_reporting_test *t = test->priv;
	unsigned long requested;

	page_reporting_test_request(t);
	requested = t->prdev.requested;
	page_reporting_test_due(test, TEST_HOST_MS, false);

	/* So that it matters from when the new delay counts */
	msleep(50);
	page_reporting_test_do(test);
	if (event->by == TEST_TRIGGER) {
		page_reporting_test_wait(test, 1);
		KUNIT_EXPECT_FALSE(test, delayed_work_pending(&t->prdev.work));
		return;
	}

	/* Counted from the request: nothing else asks for a pass here. */
	KUNIT_EXPECT_EQ(test, t->prdev.requested, requested);
	page_reporting_test_due(test, event->result_ms,
				event->result_ms != TEST_HOST_MS);
	if (event->result_ms == 500) {
		page_reporting_test_wait(test, 1);
		KUNIT_EXPECT_GE(test, jiffies - requested, msecs_to_jiffies(500));
		return;
	}
	KUNIT_EXPECT_TRUE(test, page_reporting_test_pending(t));
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
	page_reporting_test_wait(test, event->by == TEST_TRIGGER ? 2 : 1);
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

	if (event->by == TEST_TRIGGER) {
		page_reporting_test_wait(test, 2);
		KUNIT_EXPECT_EQ(test, page_reporting_test_state(t),
				PAGE_REPORTING_IDLE);
		return;
	}
	page_reporting_test_due(test, event->result_ms, false);
	if (event->result_ms == 500) {
		page_reporting_test_wait(test, 2);
		return;
	}
	KUNIT_EXPECT_EQ(test, page_reporting_test_state(t),
			PAGE_REPORTING_REQUESTED);
	KUNIT_EXPECT_TRUE(test, page_reporting_test_pending(t));
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
	page_reporting_test_due(test, 50, true);
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
	if (event->by == TEST_TRIGGER) {
		page_reporting_test_wait(test, 1);
		return;
	}
	page_reporting_test_due(test, event->result_ms,
				event->result_ms != TEST_HOST_MS);
	if (event->result_ms == 500)
		page_reporting_test_wait(test, 1);
	else
		KUNIT_EXPECT_TRUE(test, page_reporting_test_pending(t));
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

/* Two that change the delay at once, the guest and the host */
static int page_reporting_test_toggle(void *data)
{
	while (!kthread_should_stop()) {
		page_reporting_set_own_delay(TEST_OWN_MS);
		page_reporting_set_own_delay(TEST_LONGER_MS);
	}

	return 0;
}

static void page_reporting_test_two_writers(struct kunit *test)
{
	struct page_reporting_test *t = test->priv;
	struct task_struct *other;
	unsigned int i;

	other = kthread_run(page_reporting_test_toggle, NULL, "page_reporting_test");
	KUNIT_ASSERT_FALSE(test, IS_ERR(other));
	page_reporting_test_request(t);
	for (i = 0; i < 10000; i++)
		page_reporting_request_delay(&t->prdev, TEST_HOST_MS + i);
	kthread_stop(other);

	/* Who was last does not matter, that the timer has it does. */
	page_reporting_test_due(test, page_reporting_get_delay(), true);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->passes), 0);
}

/* Below zone->lock a timer may be started, but no worker woken. */
static void page_reporting_test_free_path(struct kunit *test)
{
	struct page_reporting_test *t = test->priv;
	unsigned long flags;
	bool pending;

	page_reporting_request_delay(&t->prdev, 0);
	local_irq_save(flags);
	page_reporting_test_request(t);
	pending = page_reporting_test_pending(t);
	local_irq_restore(flags);
	KUNIT_EXPECT_TRUE(test, pending);
	page_reporting_test_wait(test, 1);
}

/* A pass that follows a pass at a delay of 0 has no timer. */
static void page_reporting_test_back_to_back(struct kunit *test)
{
	struct page_reporting_test *t = test->priv;
	unsigned long expires;

	page_reporting_test_hold(test);
	page_reporting_request_delay(&t->prdev, 0);
	page_reporting_test_request(t);
	expires = t->prdev.work.timer.expires;
	page_reporting_test_go_on(t);
	page_reporting_test_wait(test, 2);
	KUNIT_EXPECT_EQ(test, t->prdev.work.timer.expires, expires);
}

/* A pass that is running ends before the device is gone, and leaves nothing. */
static int page_reporting_test_let_go(void *data)
{
	struct page_reporting_test *t = data;

	msleep(50);
	complete(&t->go_on);

	return 0;
}

static void page_reporting_test_unregister_running(struct kunit *test)
{
	struct page_reporting_test *t = test->priv;
	struct task_struct *other;

	page_reporting_test_hold(test);
	page_reporting_trigger();
	other = kthread_run(page_reporting_test_let_go, t, "page_reporting_test");
	KUNIT_ASSERT_FALSE(test, IS_ERR(other));
	page_reporting_unregister(&t->prdev);
	KUNIT_EXPECT_FALSE(test, delayed_work_pending(&t->prdev.work));
	KUNIT_EXPECT_FALSE(test, work_busy(&t->prdev.work.work));
	KUNIT_EXPECT_EQ(test, page_reporting_get_delay(), TEST_OWN_MS);

	/* The trigger has gone with the device. */
	atomic_set(&t->passes, 0);
	KUNIT_EXPECT_EQ(test, page_reporting_register(&t->prdev), 0);
	static_branch_disable(&page_reporting_enabled);
	msleep(100);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->passes), 0);
	KUNIT_EXPECT_TRUE(test, page_reporting_test_pending(t));
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
		{ "4294967296\n", -EINVAL, 17 },
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
		/* What is no unsigned int at all has an error of its own. */
		KUNIT_EXPECT_EQ_MSG(test, err == -ERANGE ? -EINVAL : err,
				    values[i].err, "parameter %s",
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
	page_reporting_test_due(test, TEST_HOST_MS, false);
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

/* Let that many passes run, each of which leaves more to report */
static void page_reporting_test_busy_passes(struct kunit *test, int passes)
{
	struct page_reporting_test *t = test->priv;

	while (passes--) {
		KUNIT_ASSERT_TRUE(test, wait_for_completion_timeout(&t->held,
								    TEST_PATIENCE));
		/* Whoever frees memory all the time asks in each pass. */
		page_reporting_test_request(t);
		t->hold = passes > 0;
		complete(&t->go_on);
	}
	flush_work(&t->prdev.work.work);
}

/* The passes of a trigger end, however much is left to report. */
static void page_reporting_test_trigger_ends(struct kunit *test)
{
	struct page_reporting_test *t = test->priv;

	t->hold = true;
	page_reporting_trigger();
	page_reporting_test_busy_passes(test, PAGE_REPORTING_TRIGGER_PASSES);
	/* The next one waits for the delay again. */
	KUNIT_EXPECT_EQ(test, atomic_read(&t->passes),
			PAGE_REPORTING_TRIGGER_PASSES);
	KUNIT_EXPECT_TRUE(test, page_reporting_test_pending(t));
	page_reporting_test_due(test, TEST_HOST_MS, false);
	KUNIT_EXPECT_EQ(test, page_reporting_get_delay(), TEST_HOST_MS);
}

/* A trigger during the passes of another one starts the count anew. */
static void page_reporting_test_trigger_again(struct kunit *test)
{
	struct page_reporting_test *t = test->priv;

	t->hold = true;
	page_reporting_trigger();
	KUNIT_ASSERT_TRUE(test, wait_for_completion_timeout(&t->held,
							    TEST_PATIENCE));
	page_reporting_trigger();
	t->hold = true;
	complete(&t->go_on);
	page_reporting_test_busy_passes(test, PAGE_REPORTING_TRIGGER_PASSES);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->passes),
			PAGE_REPORTING_TRIGGER_PASSES + 1);
	page_reporting_test_due(test, TEST_HOST_MS, false);
}

/* A trigger that found little leaves no pass for later. */
static void page_reporting_test_trigger_early_end(struct kunit *test)
{
	struct page_reporting_test *t = test->priv;

	page_reporting_trigger();
	page_reporting_test_wait(test, 1);
	page_reporting_test_hold(test);
	page_reporting_test_request(t);
	page_reporting_test_go_on(t);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->passes), 2);
	KUNIT_EXPECT_TRUE(test, page_reporting_test_pending(t));
	page_reporting_test_due(test, TEST_HOST_MS, false);
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
	KUNIT_CASE(page_reporting_test_two_writers),
	KUNIT_CASE(page_reporting_test_free_path),
	KUNIT_CASE(page_reporting_test_back_to_back),
	KUNIT_CASE(page_reporting_test_unregister_running),
	KUNIT_CASE(page_reporting_test_who_wins),
	KUNIT_CASE(page_reporting_test_bounds),
	KUNIT_CASE(page_reporting_test_trigger_bounds),
	KUNIT_CASE(page_reporting_test_trigger_first),
	KUNIT_CASE(page_reporting_test_trigger_ends),
	KUNIT_CASE(page_reporting_test_trigger_again),
	KUNIT_CASE(page_reporting_test_trigger_early_end),
	{}
};

static struct kunit_suite page_reporting_test_suite = {
	.name = "page_reporting",
	.init = page_reporting_test_init,
	.exit = page_reporting_test_exit,
	.test_cases = page_reporting_test_cases,
};

kunit_test_suite(page_reporting_test_suite);
