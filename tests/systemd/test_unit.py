"""balloon-steer's unit under a real systemd: started, reloaded, hung, killed, stopped.

systemd is the machine's own program, as the first process of new namespaces,
on a copy in memory of the machine's files: nothing outside is seen or changed.
What make install installs is installed there. The guest is a QMP server that
this program plays. Needs root, or sudo without a password.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tests/guest'))
# pylint: disable=wrong-import-position
import tap
from guest import available_mib, wait_until

SYSTEMD = next((p for p in map(Path, ('/usr/lib/systemd/systemd', '/lib/systemd/systemd'))
                if p.exists()), None)
UNIT = 'balloon-steer.service'
CALM_MS, URGENT_MS = 30000, 50
PREFIX = '/opt/report-delay'
# The unit's is 30 s: what a daemon is given that does not say that it lives.
WATCHDOG_S = 2
CONFIG = '[daemon]\npsi = off\n[policy]\nfloor-mib = {floor}\ntight-tte-ms = 0\nurgent-tte-ms = 0\n'

# The first process of the new namespaces: lays the root out, becomes systemd.
# Targets that systemd wants are there and want nothing: no udev, no journal.
INIT = r'''
set -eu
work=$1 root=$1/root
mount --make-rprivate /
mount -t tmpfs tmpfs "$work"
mkdir "$work/upper" "$work/work" "$root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
for folder in dev run tmp; do
    mount -t tmpfs tmpfs "$root/$folder"
done
for node in 'null 1 3' 'zero 1 5' 'full 1 7' 'random 1 8' 'urandom 1 9' 'tty 5 0'; do
    set -- $node
    mknod -m 666 "$root/dev/$1" c "$2" "$3"
done
# What PrivateDevices= of a service takes over.
mkdir "$root/dev/pts" "$root/dev/shm" "$root/dev/mqueue" "$root/dev/hugepages"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
find "$root/usr/lib/systemd/system" "$root/etc/systemd/system" -maxdepth 1 -name '*.wants' \
    -exec rm -rf {} +
rm -rf "$root/etc/balloon-steer" "$root$prefix"
DESTDIR=$root prefix=$prefix "$installer" >/dev/null
mkdir -p "$root/run/balloon-steer/qmp" "$root/etc/balloon-steer" \
    "$root/etc/systemd/system/balloon-steer.service.d"
printf '[Service]\nWatchdogSec=%s\n' "$watchdog" \
    >"$root/etc/systemd/system/balloon-steer.service.d/test.conf"
cd "$root"
# systemd lays out roots for its services: a chroot is not enough.
pivot_root . .
umount -l .
exec "$systemd" --system --unit=basic.target --log-target=null \
    --show-status=no </dev/null
'''


class FakeQemu:
    """One QMP server; what it was asked for is .requested, None without a request."""

    def __init__(self, path):
        self.requested = None
        self.withdrawals = 0
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            connection = self.listener.accept()[0]
            with connection, connection.makefile('rw') as stream:
                try:
                    self._talk(stream)
                except (OSError, ValueError):
                    pass  # the daemon is gone

    def _talk(self, stream):
        self._say(stream, {'QMP': {'version': {}, 'capabilities': []}})
        for line in stream:
            command = json.loads(line)
            answer = self._answer(command['execute'], command.get('arguments', {}))
            self._say(stream, answer | {'id': command['id']})

    @staticmethod
    def _say(stream, message):
        stream.write(json.dumps(message) + '\n')
        stream.flush()

    def _answer(self, command, arguments):
        if command == 'balloon-set-report-delay':
            self.requested = arguments.get('delay-ms')
            self.withdrawals += self.requested is None
        elif command == 'query-balloon-report-delay':
            info = {'offered': True, 'negotiated': True, 'inhibited': False, 'reports': 1,
                    'reported-bytes': 0, 'discarded-bytes': 0,
                    'applied-ms': 2000 if self.requested is None else self.requested}
            if self.requested is not None:
                info['requested-ms'] = self.requested
            return {'return': info}
        elif command not in ('qmp_capabilities', 'query-migrate'):
            return {'error': {'class': 'CommandNotFound', 'desc': 'The command is not found'}}
        return {'return': {}}


class Machine:
    """systemd in namespaces of its own."""

    def __init__(self, folder):
        self.cgroups = folder / 'cgroups'
        self.cgroups.mkdir()
        self.work = folder / 'work'
        self.work.mkdir()
        self.process = None
        subprocess.run(['mount', '-t', 'cgroup2', 'cgroup2', self.cgroups], check=True)
        self.cgroup = self.cgroups / f'report-delay-{os.getpid()}'
        self.cgroup.mkdir()

    def start(self):
        env = {'PATH': '/usr/sbin:/usr/bin:/sbin:/bin', 'container': 'report-delay',
               'prefix': PREFIX, 'installer': str(ROOT / 'scripts/install'),
               'systemd': str(SYSTEMD), 'watchdog': str(WATCHDOG_S)}
        self.process = subprocess.Popen(
            ['setpriv', '--pdeathsig', 'KILL', 'unshare', '--mount', '--pid', '--net', '--ipc',
             '--uts', '--cgroup', '--fork', '--kill-child', 'sh', '-c', INIT, 'sh', self.work],
            env=env, preexec_fn=lambda: (self.cgroup / 'cgroup.procs').write_text('0'))
        wait_until(lambda: self.first() and self.run('systemctl', 'is-active', 'basic.target',
                                                     check=False) == 'active', 60, 'systemd is up')

    def first(self):
        """The number of systemd, or None before it is there."""
        if self.process.poll() is not None:
            raise RuntimeError('systemd has ended')
        children = Path(f'/proc/{self.process.pid}/task/{self.process.pid}/children').read_text()
        for child in children.split():
            if Path(f'/proc/{child}/comm').read_text().strip() == 'systemd':
                return int(child)
        return None

    def path(self, path):
        return Path(f'/proc/{self.first()}/root{path}')

    def run(self, *command, check=True):
        done = subprocess.run(['nsenter', '-t', str(self.first()), '--mount', '--pid', '--cgroup',
                               '--net', '--root', '--wd', *command], capture_output=True, text=True,
                              timeout=120, check=False)
        if check and done.returncode:
            raise RuntimeError(f'{command}: {done.stdout}{done.stderr}')
        return done.stdout.strip()

    def show(self, name):
        return self.run('systemctl', 'show', '--value', '-p', name, UNIT)

    def main_pid(self):
        """As this side numbers it."""
        inner = self.show('MainPID')
        assert inner != '0', self.run('systemctl', 'status', UNIT, check=False)
        for status in Path('/proc').glob('[0-9]*/status'):
            try:
                text = status.read_text()
                same = os.readlink(status.parent / 'ns/pid') == os.readlink(
                    f'/proc/{self.first()}/ns/pid')
            except OSError:
                continue
            if same and re.search(rf'NSpid:.*\t{inner}\n', text):
                return int(status.parent.name)
        raise RuntimeError(f'no process {inner} in there')

    def close(self):
        if self.process:
            self.process.kill()
            self.process.wait()
        wait_until(lambda: 'populated 0' in (self.cgroup / 'cgroup.events').read_text(), 30,
                   'no process left')
        for folder in sorted(self.cgroup.rglob('*'), key=lambda p: -len(p.parts)):
            if folder.is_dir():
                folder.rmdir()
        self.cgroup.rmdir()
        subprocess.run(['umount', self.cgroups], check=True)


machine = qemu = None


def is_calm():
    machine.path('/etc/balloon-steer/balloon-steer.conf').write_text(
        CONFIG.format(floor=available_mib() // 40))


def is_short():
    machine.path('/etc/balloon-steer/balloon-steer.conf').write_text(
        CONFIG.format(floor=available_mib() * 10 // 7))


def wait_asked(delay_ms, seconds=30):
    wait_until(lambda: qemu.requested == delay_ms, seconds,
               lambda: f'asked for {delay_ms}, it is {qemu.requested}; '
                       f'{machine.run("systemctl", "status", UNIT, check=False)}')


def test_start():
    is_calm()
    machine.run('systemctl', 'start', UNIT)
    assert machine.show('ActiveState') == 'active'
    wait_asked(CALM_MS)
    status = machine.show('StatusText')
    assert re.fullmatch(r'CALM: [01] VMs, [01] steered', status), status
    version = int(machine.run('systemctl', '--version').split()[1])
    kind = machine.show('Type')
    assert kind == ('notify-reload' if version >= 253 else 'notify'), f'{kind}, systemd {version}'
    program = machine.run('readlink', f'/proc/{machine.show("MainPID")}/exe')
    # In a chroot, the chroot's folder is before it.
    assert program.endswith(f'{PREFIX}/sbin/balloon-steer'), program
    tap.note(f'systemd {version}, Type={kind}')


def test_reload():
    before = machine.show('MainPID')
    is_short()
    machine.run('systemctl', 'reload', UNIT)
    wait_asked(URGENT_MS)
    assert machine.show('MainPID') == before and machine.show('ActiveState') == 'active'
    machine.path('/etc/balloon-steer/balloon-steer.conf').write_text('no such line\n')
    # A bad one: it says so in the log, and goes on.
    machine.run('systemctl', 'reload', UNIT)
    assert machine.show('MainPID') == before and machine.show('ActiveState') == 'active'
    is_short()


def starts_again(number):
    """Something happens to the daemon: its request is withdrawn, and a new one steers on."""
    before, restarts = machine.show('MainPID'), int(machine.show('NRestarts'))
    withdrawals = qemu.withdrawals
    start = time.monotonic()
    os.kill(machine.main_pid(), number)
    wait_until(lambda: int(machine.show('NRestarts')) > restarts and
               machine.show('ActiveState') == 'active', 90,
               lambda: machine.run('systemctl', 'status', UNIT, check=False))
    assert machine.show('MainPID') != before
    assert qemu.withdrawals > withdrawals, 'ExecStopPost has not withdrawn'
    wait_asked(URGENT_MS)
    return time.monotonic() - start


def test_watchdog():
    took = starts_again(signal.SIGSTOP)
    tap.note(f'steers again {took:.1f} s after it was stopped, WatchdogSec={WATCHDOG_S}')


def test_killed():
    took = starts_again(signal.SIGKILL)
    tap.note(f'steers again {took:.1f} s after SIGKILL')


def test_stop():
    withdrawals = qemu.withdrawals
    machine.run('systemctl', 'stop', UNIT)
    assert machine.show('ActiveState') == 'inactive' and machine.show('Result') == 'success'
    assert qemu.requested is None and qemu.withdrawals > withdrawals
    assert machine.show('ExecMainStatus') == '0'


def test_exposure():
    """Under 2.0 of 10, by systemd's own count, and nothing in it that systemd does not know."""
    unit = f'/usr/local/lib/systemd/system/{UNIT}'
    said = machine.run('systemd-analyze', 'security', '--offline=true', '--threshold=19', unit)
    tap.note(said.splitlines()[-1])
    assert machine.run('systemd-analyze', 'verify', '--man=no', unit) == ''


def main():
    global machine, qemu  # pylint: disable=global-statement
    if os.getuid() != 0:
        if not shutil.which('sudo') or subprocess.run(['sudo', '-n', 'true'], check=False).returncode:
            sys.exit('tests/systemd: needs root, or sudo without a password')
        os.execvp('sudo', ['sudo', '-n', sys.executable, *sys.argv])
    if not SYSTEMD:
        sys.exit('tests/systemd: there is no systemd: run `make setup`')
    with tempfile.TemporaryDirectory(prefix='report-delay-') as folder:
        machine = Machine(Path(folder))
        try:
            machine.start()
            qemu = FakeQemu(machine.path('/run/balloon-steer/qmp/vm'))
            tap.run([
                ('started, ready, steering', test_start),
                ('reloaded', test_reload),
                ('a daemon that hangs is replaced, its request withdrawn', test_watchdog),
                ('a daemon that is killed, too', test_killed),
                ('stopped: withdrawn', test_stop),
                ('its sandbox', test_exposure),
            ])
        finally:
            machine.close()


if __name__ == '__main__':
    main()
