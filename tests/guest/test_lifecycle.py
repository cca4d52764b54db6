"""Sleep, unbind, unplug, reboot, with the host changing the delay all the time.

    test_lifecycle.py [--long] [PART-OF-A-NAME]

The guest reports single pages (page_reporting_order=0) while it takes and frees
memory, so that passes and their timer are busy at every moment; panic_on_warn
ends it at the first complaint. REPORT_DELAY_SERIES names the kernel; one that
has "stock" in its name is the control: the same life, without our driver.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import random
import sys
import tempfile
import threading
import time

import tap
from guest import Guest, wait_until
from qmp import QMPError

SERIES = os.environ.get('REPORT_DELAY_SERIES', '6.12')
STOCK = 'stock' in SERIES
MODULE = 'module' in SERIES
LONG = '--long' in sys.argv[1:]

MIB = 2**20
MEMORY_MIB = 1024
BALLOON_MIB = 900
SYSCTL = '/proc/sys/vm/page_reporting_delay_ms'
DRIVER = '/sys/bus/virtio/drivers/virtio_balloon'
OWN_MS = 4321
FEATURES = 'free-page-reporting=on,report-delay=on,deflate-on-oom=on'
DEVICE = f'virtio-balloon-pci,id=balloon0,{FEATURES}'
SEED = int(os.environ.get('REPORT_DELAY_SEED', time.time()))
random_ms = random.Random(SEED)


class Steerer(threading.Thread):
    """A host that asks for another delay some thirty times a second."""

    def __init__(self, qmp):
        super().__init__(daemon=True)
        self.qmp = qmp
        self.count = 0
        self.ends = threading.Event()
        self.start()

    def run(self):
        while not self.ends.wait(0.03):
            delay_ms = random_ms.choice([None, 0, 0, 1, 10, 100, 2000, 60000, 600000])
            try:
                self.qmp.command('balloon-set-report-delay',
                                 **({} if delay_ms is None else {'delay_ms': delay_ms}))
                self.count += 1
            except QMPError as error:
                if error.cls != 'DeviceNotActive':  # it is unplugged at the moment
                    raise
            except (OSError, TimeoutError):
                return  # the guest is at its end

    def end(self):
        self.ends.set()
        self.join(30)


class Life(Guest):
    """A busy guest, and a host that steers it."""

    def __init__(self, **how):
        append = ('page_reporting.page_reporting_order=0 panic_on_warn=1 '
                  f'no_console_suspend {how.pop("append", "")}')
        # pc: on q35 SeaBIOS forgets the power management registers in the first
        # S3, and no guest, stock or not, sleeps a second time.
        super().__init__(series=SERIES, memory_mib=MEMORY_MIB, machine='pc', monitors=2,
                         device=how.pop('balloon', DEVICE), append=append, **how)
        self.steerer = None
        if not how.get('paused'):
            self.wake_up()

    def wake_up(self):
        if not STOCK:
            self.run(f'echo {OWN_MS} >{SYSCTL}')
        self.run('churn 40 20 >/dev/null & churn 3 1 >/dev/null &')
        self.set_size(BALLOON_MIB)

    def size(self):
        return self.qmp.command('query-balloon')['actual'] // MIB

    def set_size(self, mib):
        self.qmp.command('balloon', value=mib * MIB)
        wait_until(lambda: self.size() == mib, 120, lambda: f'{mib} MiB, it is {self.size()}')

    def waiting(self):
        """Where the guest's workers wait, and what its kernel has said."""
        return self.run('grep -E "^(balloon|MemFree)" /proc/vmstat /proc/meminfo; for p in /proc/[0-9]*; do '
                        'case $(cat $p/comm 2>/dev/null) in kworker*) '
                        's=$(cat $p/stack 2>/dev/null); case "$s" in *balloon*|*report*) echo "$s";; '
                        'esac;; esac; done; dmesg | tail -n 5', check=False)[1]

    def steer(self):
        self.steerer = Steerer(self.more_qmp[0])

    def settle_on(self, delay_ms):
        """End the storm with a last request."""
        if self.steerer:
            self.steerer.end()
            self.steerer = None
        self.qmp.command('balloon-set-report-delay', delay_ms=delay_ms)

    def check(self, delay_ms, size=BALLOON_MIB):
        """What the host last asked for is in force, the balloon is as it was, all is well."""
        if not STOCK:
            self.wait_applied(delay_ms, 120)
            assert self.read(SYSCTL) == str(delay_ms)
        wait_until(lambda: self.size() == size, 120,
                   lambda: f'the balloon has {self.size()} MiB\n{self.waiting()}')
        # Reporting goes on.
        before = self.delay()['reports']
        wait_until(lambda: self.delay()['reports'] > before, 120, 'another report')
        self.check_console()


def rounds(few, many):
    return many if LONG else few


def test_preconditions():
    with Life() as life:
        life.steer()
        time.sleep(3)  # some hundred changes
        life.settle_on(50)
        life.check(50)
        tap.note(f'accelerator {life.accel}, kernel {life.release}, seed {SEED}')
        # "stock" is not in the release: the sysctl tells them apart.
        assert (life.run(f'test -e {SYSCTL}', check=False)[0] == 0) != STOCK
        debug = life.run('test -e /proc/lockdep_stats', check=False)[0] == 0
        assert debug == ('debug' in SERIES), SERIES


def sleep_and_wake(life, count, command, wake):
    """Sleep `count` times; the host asks for something while the guest sleeps."""
    stats = '/sys/power/suspend_stats/success'
    slept = int(life.read(stats))
    for turn in range(count):
        life.steer()
        number = life.start(command)
        delay_ms = 20 + turn
        wake(life, delay_ms)
        status, output = life.finish(number)
        assert status == 0, output
        life.check(delay_ms)
    assert int(life.read(stats)) == slept + count


def test_s3():
    def wake(life, delay_ms):
        life.qmp.wait_event('SUSPEND', 60)
        life.settle_on(delay_ms)
        life.qmp.command('system_wakeup')
    with Life() as life:
        life.run('echo deep >/sys/power/mem_sleep')
        sleep_and_wake(life, rounds(2, 40), 'echo mem >/sys/power/state', wake)


def test_s2idle():
    def wake(life, delay_ms):
        # Nothing tells when it sleeps: a button pressed before is pressed again.
        time.sleep(1)
        life.settle_on(delay_ms)
        for _ in range(120):
            life.qmp.command('system_powerdown')
            time.sleep(0.5)
            if f'@end {life.count} 0' in life.control.lines:
                break
    with Life() as life:
        sleep_and_wake(life, rounds(2, 40), 'echo freeze >/sys/power/state', wake)


def test_s4():
    with tempfile.NamedTemporaryFile(dir='/var/tmp') as disk:
        disk.truncate(2048 * MIB)
        drive = ['-drive', f'if=none,id=swap,format=raw,cache=unsafe,file={disk.name}',
                 '-device', 'virtio-blk-pci,drive=swap']
        resume = 'resume=/dev/vda'
        life = Life(options=drive, append=resume)
        try:
            life.run('mkswap /dev/vda && swapon /dev/vda')
            for turn in range(rounds(1, 10)):
                delay_ms = 20 + turn
                life.steer()
                time.sleep(0.5)  # a dozen changes, so that it sleeps in the middle of them
                number = life.start('echo disk >/sys/power/state')
                life.process.wait(240)
                life.steerer.end()
                life.check_console()
                life.close()
                # What the host now asks for comes with the new process.
                device = DEVICE + ('' if STOCK else f',report-delay-ms={delay_ms}')
                count = life.count
                life = Life(options=drive, append=resume, paused=True, balloon=device)
                life.count = count
                life.qmp.command('balloon', value=BALLOON_MIB * MIB)
                life.qmp.command('cont')
                status, output = life.finish(number, 240)
                assert status == 0, output
                life.check(delay_ms)
        finally:
            life.close()


def unbind_and_bind(life, count, away, back):
    for turn in range(count):
        life.steer()
        time.sleep(random_ms.random() * 0.1)  # another moment of the storm each time
        life.run(away)
        if not STOCK:
            assert life.read(SYSCTL) == str(OWN_MS), 'the guest\'s own value is back'
        life.settle_on(30 + turn)
        back()
        life.check(30 + turn)


def test_unbind():
    with Life() as life:
        device = life.run(f'cd {DRIVER} && ls -d virtio*')[1].strip()
        unbind_and_bind(life, rounds(10, 200), f'echo {device} >{DRIVER}/unbind',
                        lambda: life.run(f'echo {device} >{DRIVER}/bind'))


def test_module():
    if not MODULE:
        raise tap.Skip('the driver is built in')
    with Life() as life:
        unbind_and_bind(life, rounds(10, 200), 'rmmod virtio_balloon', life.load_driver)


def test_plug():
    with Life() as life:
        for turn in range(rounds(3, 40)):
            life.steer()
            time.sleep(random_ms.random() * 0.1)  # another moment of the storm each time
            life.qmp.command('device_del', id='balloon0')
            life.qmp.wait_event('DEVICE_DELETED', 120, lambda data: data.get('device') == 'balloon0')
            if not STOCK:
                assert life.read(SYSCTL) == str(OWN_MS), 'the guest\'s own value is back'
            life.steerer.end()
            life.steerer = None
            life.qmp.command('device_add', driver='virtio-balloon-pci', id='balloon0',
                             free_page_reporting=True, report_delay=True,
                             deflate_on_oom=True, report_delay_ms=40 + turn)
            life.check(40 + turn, MEMORY_MIB)


def test_reboot():
    with Life() as life:
        for turn in range(rounds(1, 10)):
            life.steer()
            time.sleep(0.5)  # a dozen changes, so that it restarts in the middle of them
            life.reboot()
            life.wake_up()
            life.settle_on(50 + turn)
            life.check(50 + turn)


if __name__ == '__main__':
    sys.argv = [arg for arg in sys.argv if arg != '--long']
    tap.run([
        ('a busy guest is steered', test_preconditions),
        ('S3: what was asked meanwhile is in force afterwards', test_s3),
        ('s2idle: what was asked meanwhile is in force afterwards', test_s2idle),
        ('S4: so is what the next QEMU asks', test_s4),
        ('unbind gives the own value back, bind takes what is asked', test_unbind),
        ('so does unloading the module', test_module),
        ('unplugged and plugged in again', test_plug),
        ('reboot', test_reboot),
    ])
