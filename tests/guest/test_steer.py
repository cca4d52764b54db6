"""balloon-steer on real guests and real memory: three machines, a host that runs short.

The host's shortage is made, not faked: a program takes memory until what is
available is below the floor, which is raised so that it need not take nearly
all of it. Its pressure is real, too: programs that fight over the page cache of a
cgroup which is too small for them.

    test_steer.py [PART-OF-A-NAME]

SPDX-License-Identifier: GPL-2.0-or-later
"""
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tap
from guest import BUILD, DEVICE, Guest, available_mib, nothing_happens_for, wait_until

STEER = BUILD / 'steer/balloon-steer'
MEMHOG = BUILD / 'guest-kernel/initramfs/memhog'
MIB = 2**20
GUEST_MIB = 1024
FREED_MIB = 384
CALM_MS, URGENT_MS = 30000, 50
LEASE_S = 10
PSI_VETO_S = 10
STALL_MIB = 64
OWN_MS = 2000
# F is this part of what is available at the start: calm, and less than half to
# take away until it is short. The bands above F are narrow, or the guests would
# have given all back before, and a delay that has no effect is not kept.
FLOOR_PART = 1 / 1.7

CONFIG = '''
[daemon]
qmp-folder = {folder}/qmp
control-socket = {folder}/control
lock-file = {folder}/lock
psi = triggers
[policy]
floor-mib = {floor}
easy-below-floor-percent = 106
watch-below-floor-percent = 104
tight-below-floor-percent = 102
urgent-below-floor-percent = 100
zero-below-floor-percent = 0
relax-above-percent = 105
hold-ms = 3000
tight-tte-ms = 0
urgent-tte-ms = 0
'''


class Host:
    """The daemon, three guests, and a program that takes the host's memory."""

    def __init__(self, folder):
        self.folder = folder
        (folder / 'qmp').mkdir()
        (folder / 'log').touch()
        self.daemon = self.hog = None
        self.guests = []
        try:
            for name in ('a', 'b', 'c'):
                self.guests.append(Guest(memory_mib=GUEST_MIB, device=DEVICE, options=[
                    '-qmp', f'unix:{folder}/qmp/{name},server=on,wait=off']))
            for guest in self.guests:
                guest.settle()
                guest.withdraw()
            self.available = available_mib()
            self.floor = int(self.available * FLOOR_PART)
            (folder / 'steer.conf').write_text(CONFIG.format(folder=folder, floor=self.floor))
        except BaseException:
            self.close()
            raise

    def close(self):
        for process in (self.daemon, self.hog):
            if process:
                process.kill()
                process.wait()
        for guest in self.guests:
            guest.close()

    def start_daemon(self):
        if self.daemon and self.daemon.poll() is None:
            return
        with open(self.folder / 'log', 'ab') as log:
            self.daemon = subprocess.Popen(
                ['setpriv', '--pdeathsig', 'KILL', STEER, 'run', '--verbose', '--config',
                 self.folder / 'steer.conf'], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def reload(self, **policy):
        """Other values of [policy], until the next reload."""
        more = ''.join(f'{key.replace("_", "-")} = {value}\n' for key, value in policy.items())
        (self.folder / 'steer.conf').write_text(
            CONFIG.format(folder=self.folder, floor=self.floor) + more)
        at = self.mark()
        self.daemon.send_signal(signal.SIGHUP)
        wait_until(lambda: 'configuration reloaded' in self.said_since(at), 30, self.said)

    def mark(self):
        return (self.folder / 'log').stat().st_size

    def said_since(self, mark):
        return (self.folder / 'log').read_bytes()[mark:].decode(errors='replace')

    def asked_for(self, delay_ms, mark):
        """The guests in the order in which they were asked for a delay, each once."""
        names = re.findall(rf'(?m)^balloon-steer: (\w): asked for {delay_ms} ms,',
                           self.said_since(mark))
        return list(dict.fromkeys(names))

    def churn_permille(self):
        done = subprocess.run([STEER, 'status', '--json', '--config', self.folder / 'steer.conf'],
                              capture_output=True, text=True, check=True, timeout=30)
        return {vm['name']: vm['churn-permille'] for vm in json.loads(done.stdout)['vms']}

    def said(self):
        return (self.folder / 'log').read_text(errors='replace')[-2000:]

    def free_memory(self):
        """Give each guest a backlog: without one a short delay has no effect and is not kept."""
        return [guest.use_and_free(FREED_MIB) for guest in self.guests]

    def calm_down(self):
        self.give_memory_back()
        # A guest that took returned memory back has a longer one than the others.
        wait_until(self.calm, 120, lambda: f'calm, it is {self.applied()}; the daemon says:\n'
                                           f'{self.said()}')

    def calm(self):
        return all((ms or 0) >= CALM_MS for ms in self.applied())

    def take_memory(self):
        """Until a tenth less than the floor is available; seconds since the floor was crossed."""
        self.give_memory_back()  # of a test that failed
        mib = available_mib() - int(self.floor * 0.9)
        self.hog = subprocess.Popen(['setpriv', '--pdeathsig', 'KILL', MEMHOG, str(mib)],
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        wait_until(lambda: available_mib() < self.floor, 120, 'the floor crossed')

    def give_memory_back(self):
        if not self.hog:
            return
        self.hog.kill()
        self.hog.wait()
        self.hog = None

    def applied(self, guests=None):
        return [guest.delay().get('applied-ms') for guest in guests or self.guests]

    def wait_all(self, value, seconds, guests=None):
        return wait_until(lambda: set(self.applied(guests)) == {value}, seconds,
                          lambda: f'{value} ms everywhere, it is {self.applied(guests)}; '
                                  f'the daemon says:\n{self.said()}')


def memory_cgroup():
    """(folder for a new memory cgroup, name of the file of its limit), of version 1 or 2."""
    for line in Path('/proc/mounts').read_text().splitlines():
        _, folder, kind, options = line.split()[:4]
        if kind == 'cgroup' and 'memory' in options.split(','):
            return Path(folder), 'memory.limit_in_bytes'
        controls = Path(folder, 'cgroup.subtree_control')
        if kind == 'cgroup2' and 'memory' in controls.read_text().split():
            return Path(folder), 'memory.max'
    raise tap.Skip('no memory cgroups here')


@contextlib.contextmanager
def stall(folder):
    """Real pressure: readers of a file that has no room in their cgroup wait for its pages."""
    parent, limit = memory_cgroup()
    group = parent / f'report-delay-{os.getpid()}'
    try:
        group.mkdir()
        (group / limit).write_text(str(STALL_MIB * MIB))
    except OSError as error:
        raise tap.Skip(f'no memory cgroup to be had: {error}') from error
    # Written by them: a page counts where it was first used.
    readers = subprocess.Popen(
        ['setpriv', '--pdeathsig', 'KILL', 'sh', '-c',
         f'echo $$ >{group}/cgroup.procs; head -c {4 * STALL_MIB}M /dev/zero >{folder}/fought-over; '
         f'for i in 1 2 3 4 5 6 7 8; do '
         f'while :; do cat {folder}/fought-over; done >/dev/null & done; wait'],
        stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        def gone():
            pids = (group / 'cgroup.procs').read_text().split()
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            return not pids
        wait_until(gone, 30, 'the readers gone')
        readers.wait()
        group.rmdir()


host = None


def test_calm():
    host.start_daemon()
    host.wait_all(CALM_MS, 30)
    for guest in host.guests:
        assert guest.read('/proc/sys/vm/page_reporting_delay_ms') == str(CALM_MS)


def test_short_when_the_host_is():
    freed = host.free_memory()
    nothing_happens_for(2)
    for guest, (before, peak) in zip(host.guests, freed):
        assert peak - guest.rss() < 0.5 * (peak - before), 'it is back though the host is calm'
    host.take_memory()
    took = host.wait_all(URGENT_MS, 10)
    tap.note(f'all short {took:.2f} s after the floor was crossed')
    for guest, (before, peak) in zip(host.guests, freed):
        wait_until(lambda guest=guest, before=before, peak=peak:
                   peak - guest.rss() > 0.85 * (peak - before), 20, '85 % back')


def test_relaxed_after_the_hold():
    host.give_memory_back()
    start = time.monotonic()
    seen = []

    def calm():
        values = host.applied()
        if not seen or seen[-1] != values:
            seen.append(values)
        return host.calm()
    wait_until(calm, 120, lambda: f'calm again, seen {seen}; the daemon says:\n{host.said()}')
    took = time.monotonic() - start
    # Four steps down, each after a hold of 3 s.
    assert took > 9, f'{took:.1f} s'
    for guest in range(3):
        values = [row[guest] for row in seen if row[guest] is not None]
        assert values == sorted(values), f'not a step at a time upwards: {values}'


def test_churny_is_last_and_first():
    """What a guest that churns would return is soon wanted back; half of the jitter is luck."""
    churny, *quiet = host.guests
    host.calm_down()
    # A step lasts longer than the jitter, or a guest whose turn is late leaves one out; nobody
    # is left alone, though a slow hog lets them return all before the last step.
    host.reload(churn_window_ms=3000, jitter_ms=4000, hold_ms=6000, no_effect_delays=1000)
    churny.run('churn 64 200 >/dev/null & echo $! >/tmp/churn')
    try:
        for guest in quiet:
            guest.use_and_free(FREED_MIB)
        # It sees what they hold for nothing with its next tick, a second at most when calm.
        time.sleep(2)
        assert churny.rss() < min(guest.rss() for guest in quiet)
        mark = host.mark()
        host.take_memory()
        host.wait_all(URGENT_MS, 10)
        # The first step: at the next ones less is left of what they had to return.
        order = host.asked_for(r'\d+', mark)
        assert len(order) == 3 and order[-1] == 'a', f'{order}\n{host.said_since(mark)}'

        def churns():
            figures = host.churn_permille()
            return figures['a'] > 500 and max(figures['b'], figures['c']) < 100
        wait_until(churns, 60, lambda: f'one that churns, it is {host.churn_permille()}')
        figures = host.churn_permille()
        mark = host.mark()
        host.give_memory_back()
        wait_until(lambda: len(host.asked_for(500, mark)) == 3, 60,
                   lambda: f'three relaxed, the daemon says:\n{host.said_since(mark)}')
        relaxed = host.asked_for(500, mark)
        assert relaxed[0] == 'a', f'{relaxed}\n{host.said_since(mark)}'
        tap.note(f'churn {figures} per mille; shortened {order}, relaxed {relaxed}')
    finally:
        churny.run('kill $(cat /tmp/churn)')
        host.reload()


def test_stopped_qemu_disturbs_nobody():
    stopped, *others = host.guests
    host.free_memory()
    os.kill(stopped.process.pid, signal.SIGSTOP)
    try:
        host.take_memory()
        host.wait_all(URGENT_MS, 10, others)
    finally:
        os.kill(stopped.process.pid, signal.SIGCONT)
    # Its turn comes when it answers again; the back-off is up to 60 s.
    wait_until(lambda: stopped.delay().get('requested-ms') not in (None, CALM_MS), 90,
               'the stopped one steered again')


def test_killed_daemon_leaves_nobody_short():
    host.calm_down()
    host.free_memory()
    host.take_memory()
    host.wait_all(URGENT_MS, 10)
    host.daemon.kill()
    host.daemon.wait()
    assert URGENT_MS in host.applied(), 'it ended before the lease did'
    took = host.wait_all(OWN_MS, LEASE_S + 5)
    tap.note(f'all back at their own delay {took:.1f} s after SIGKILL, the lease is {LEASE_S} s')


def test_second_daemon_and_stop():
    host.give_memory_back()
    host.start_daemon()
    host.calm_down()
    second = subprocess.run([STEER, 'run', '--config', host.folder / 'steer.conf'], text=True,
                            capture_output=True, timeout=30, check=False)
    assert second.returncode != 0 and 'lock' in second.stderr, second
    host.daemon.send_signal(signal.SIGTERM)
    assert host.daemon.wait(30) == 0, host.said()
    host.wait_all(OWN_MS, 10)


def test_pressure():
    """A host that has memory enough, and tasks that wait for it all the same."""
    host.start_daemon()
    host.calm_down()
    window = re.search('PSI: (triggers of [0-9]+ ms|totals|none)', host.said_since(0))
    if window[1] == 'none':
        raise tap.Skip('this kernel has no PSI')
    mark = host.mark()
    host.free_memory()
    with stall(host.folder):
        took = host.wait_all(URGENT_MS, 10)
        assert available_mib() > host.floor, 'the stall itself made it short'
    said = host.said_since(mark)
    assert 'PSI full' in said, said
    tap.note(f'{window[0]}, all short {took:.2f} s after it began')
    start = time.monotonic()
    host.calm_down()
    assert time.monotonic() - start > PSI_VETO_S - 2, 'relaxed soon after a stall'


def main():
    global host
    with tempfile.TemporaryDirectory(prefix='steer-') as folder:
        host = Host(Path(folder))
        try:
            tap.note(f'{host.available} MiB available, floor {host.floor} MiB, '
                     f'{host.guests[0].accel}')
            tap.run([
                ('calm: all guests relaxed', test_calm),
                ('short of memory: all short, and memory back', test_short_when_the_host_is),
                ('enough again: relaxed, a step at a time', test_relaxed_after_the_hold),
                ('a churny guest is shortened last and relaxed first', test_churny_is_last_and_first),
                ('a QEMU that is stopped disturbs nobody', test_stopped_qemu_disturbs_nobody),
                ('SIGKILL: the leases end', test_killed_daemon_leaves_nobody_short),
                ('a second daemon refuses; SIGTERM withdraws', test_second_daemon_and_stop),
                ('tasks stall: all short, and not relaxed soon', test_pressure),
            ])
        finally:
            host.close()


if __name__ == '__main__':
    sys.exit(main())
