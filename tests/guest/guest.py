"""A booted guest: our QEMU, a kernel of ours, the initramfs, QMP, a console.

    with Guest(memory_mib=3072) as guest:
        guest.run('cat /proc/version')
        guest.qmp.command('balloon-set-report-delay', delay_ms=100)

A guest that panics, warns or reports a lock problem fails whatever it is in
the middle of. A guest that says nothing in time fails with its console's tail.
No process outlives the `with`, nor this process.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import re
import socket
import subprocess
import threading
import time
from pathlib import Path

from qmp import QMP

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get('REPORT_DELAY_BUILD', ROOT / 'build'))

# TCG on a machine that also builds something; the usual boot takes 3 s.
BOOT_SECONDS = 120
COMMAND_SECONDS = 120

# What a healthy kernel never prints.
FAULT = re.compile(r'Kernel panic|\bBUG\b|WARNING:|\bOops\b|Call Trace|INFO: possible|'
                   r'INFO: task .* blocked|general protection|lockdep|rcu: INFO|'
                   r'Out of memory|soft lockup|refcount_t|unable to handle|KASAN|UBSAN|ODEBUG')

BALLOON = 'virtio-balloon-pci,id=balloon0'
REPORTING = f'{BALLOON},free-page-reporting=on'
DEVICE = f'{REPORTING},report-delay=on'


class GuestFault(Exception):
    """The guest's kernel complained, or the guest or QEMU went away."""


def accelerator():
    """'kvm' only where the CPU itself can: elsewhere guests hang under it."""
    flags = re.findall(r'\b(?:vmx|svm)\b', Path('/proc/cpuinfo').read_text())
    return 'kvm' if flags and os.access('/dev/kvm', os.R_OK | os.W_OK) else 'tcg'


def available_mib():
    """What this host's kernel says it could give."""
    return int(re.search(r'MemAvailable:\s+(\d+)', Path('/proc/meminfo').read_text()).group(1)) // 1024


def wait_until(condition, seconds, what):
    """Poll until condition() is true; the seconds that it took. what: text, or a function of it."""
    start = time.monotonic()
    while not condition():
        if time.monotonic() - start > seconds:
            raise TimeoutError(f'not within {seconds} s: {what() if callable(what) else what}')
        time.sleep(0.005)
    return time.monotonic() - start


def nothing_happens_for(seconds):
    """That something does not happen can only be seen by waiting: longer than it would take."""
    time.sleep(seconds)


class Console:
    """Lines of a serial port, collected by a thread until it closes."""

    def __init__(self, stream):
        self.lines = []
        self.closed = False
        self.condition = threading.Condition()
        self.stream = stream
        self.thread = threading.Thread(target=self._collect, daemon=True)
        self.thread.start()

    def _collect(self):
        try:
            for line in self.stream:
                with self.condition:
                    self.lines.append(line.rstrip('\r\n'))
                    self.condition.notify_all()
        except OSError:
            pass  # reset: QEMU was killed with bytes on their way
        with self.condition:
            self.closed = True
            self.condition.notify_all()


class Guest:
    """See the module's text. Arguments are keywords only.

    series      kernel: build/guest/<series>/bzImage
    device      -device of the balloon, None for none
    append      more kernel command line
    options     more QEMU options
    paused      start stopped (-S); boot() is then the caller's to call
    monitors    QMP monitors: the first is .qmp, the others .more_qmp, for threads
    """

    def __init__(self, *, series='6.12', memory_mib=1024, cpus=2, device=DEVICE,
                 append='', options=(), machine='q35', paused=False,
                 qemu=None, monitors=1):
        self.qemu = Path(qemu or BUILD / 'qemu/qemu-system-x86_64')
        self.kernel = BUILD / f'guest/{series}/bzImage'
        self.initramfs = BUILD / 'guest/initramfs.cpio.gz'
        self.modules = BUILD / f'guest/{series}/modules.cpio'
        for needed in (self.qemu, self.kernel, self.initramfs):
            if not needed.exists():
                raise FileNotFoundError(f'{needed} is not built: run `make qemu guest`')
        self.append = append
        self.accel = accelerator()
        self.cpus = cpus
        self.count = 0   # commands since boot
        self.booted = 0  # lines of the control console before that
        self._check_memory(memory_mib)

        initrd = str(self.initramfs)
        if self.modules.exists():
            initrd = self._with_modules()
        serial, serial_child = socket.socketpair()
        control, control_child = socket.socketpair()
        qmp = [socket.socketpair() for _ in range(monitors)]
        command = [
            # Ends with this process, however that ends.
            'setpriv', '--pdeathsig', 'KILL', str(self.qemu),
            '-nodefaults', '-no-user-config', '-display', 'none',
            '-machine', machine, '-accel', self.accel, '-smp', str(cpus),
            '-m', str(memory_mib), '-kernel', str(self.kernel), '-initrd', initrd,
            # Not quiet: a WARNING has the level that quiet leaves out. No timer check:
            # on a host under load QEMU may not run for as long as it looks, and it panics.
            '-append', 'console=ttyS0 report_delay.console=ttyS1 loglevel=5 panic=-1 '
                       f'no_timer_check {append}',
            '-no-reboot',
        ]
        if self.accel == 'kvm':
            command += ['-cpu', 'host']
        for name, child in (('serial', serial_child), ('control', control_child)):
            command += ['-chardev', f'socket,id={name},fd={child.fileno()}',
                        '-serial', f'chardev:{name}']
        for number, (_, child) in enumerate(qmp):
            command += ['-chardev', f'socket,id=qmp{number},fd={child.fileno()}',
                        '-mon', f'chardev=qmp{number},mode=control']
        if device:
            command += ['-device', device]
        if paused:
            command += ['-S']
        command += options
        children = [serial_child, control_child] + [child for _, child in qmp]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        text=True, pass_fds=[c.fileno() for c in children])
        for child in children:
            child.close()
        self.console = Console(serial.makefile('r', errors='replace'))
        self.control = Console(control.makefile('r', errors='replace'))
        self.control_socket = control
        self.sockets = [serial, control] + [ours for ours, _ in qmp]
        try:
            self.qmp, *self.more_qmp = [QMP(ours) for ours, _ in qmp]
            assert self.qmp.command('query-kvm')['enabled'] == (self.accel == 'kvm')
            if not paused:
                self.boot()
        except BaseException as error:
            words = self.close()
            if words and not isinstance(error, GuestFault):
                raise GuestFault(words) from error
            raise

    @staticmethod
    def _check_memory(memory_mib):
        available = available_mib()
        if available < memory_mib + 512:
            raise MemoryError(f'a guest of {memory_mib} MiB needs {memory_mib + 512} MiB of free '
                              f'memory, this machine has {available} MiB: free some')

    def _with_modules(self):
        """The initramfs with the kernel's modules behind it."""
        whole = self.modules.with_name('initramfs-modules.cpio.gz')
        new = whole.with_suffix(f'.{os.getpid()}')
        first = self.initramfs.read_bytes()
        # An archive that is not compressed has to start at a multiple of 4.
        new.write_bytes(first + bytes(-len(first) % 4) + self.modules.read_bytes())
        new.rename(whole)
        return str(whole)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.close()
        # SystemExit: the end of a list of tests, whose guest must be well, too.
        if kind in (None, SystemExit):
            self.check_console()

    def close(self):
        """End QEMU; what it last said on stderr."""
        self.process.kill()
        words = self.process.communicate()[1].strip()
        for console in (self.console, self.control):
            console.thread.join(10)
        for sock in self.sockets:
            sock.close()
        return words

    # The console

    def tail(self, count=20):
        return '\n'.join(self.console.lines[-count:])

    def check_console(self):
        """Raise GuestFault if the kernel has complained."""
        for line in self.console.lines:
            if FAULT.search(line):
                raise GuestFault(f'the guest kernel says: {line}\n{self.tail()}')

    def _wait_line(self, pattern, seconds, at=0):
        """The match of the first line of the control console, from line `at` on."""
        deadline = time.monotonic() + seconds
        while True:
            with self.control.condition:
                if at == len(self.control.lines) and not self.control.closed:
                    self.control.condition.wait(0.2)
                lines = self.control.lines[at:]
                closed = self.control.closed
            for line in lines:
                at += 1
                if match := re.fullmatch(pattern, line):
                    return match
            self.check_console()
            if closed and not lines:
                raise GuestFault(f'QEMU ended; the console said last:\n{self.tail()}')
            if time.monotonic() > deadline:
                raise TimeoutError(f'no "{pattern}" within {seconds} s; the console said last:\n'
                                   f'{self.tail()}')

    def boot(self):
        """Wait until init takes commands; the kernel's release."""
        self.release = self._wait_line(r'@ready (\S+)', BOOT_SECONDS, self.booted).group(1)
        if self.modules.exists():
            self.load_driver()
        return self.release

    def load_driver(self):
        """Where it is a module. Its parameters stand on the kernel command line, as for modprobe."""
        options = re.findall(r'virtio_balloon\.(\S+)', self.append)
        self.run(f'insmod /modules/virtio_balloon.ko {" ".join(options)}')

    def reboot(self):
        """Restart the guest, in the same QEMU; returns when it takes commands again."""
        self.qmp.command('set-action', reboot='reset')
        self.booted = len(self.control.lines)
        self.control_socket.sendall(b'reboot\n')
        self.count = 0
        self.boot()

    def start(self, command):
        """Let the guest run a shell command; its number, for finish()."""
        self.count += 1
        self.control_socket.sendall(command.encode() + b'\n')
        return self.count

    def finish(self, number, seconds=COMMAND_SECONDS):
        """Wait for the end of a command: (status, output)."""
        status = int(self._wait_line(rf'@end {number} (\d+)', seconds, self.booted).group(1))
        lines = self.control.lines[self.booted:]
        # It is not there in a guest that went to sleep in another QEMU.
        begin = lines.index(f'@begin {number}') if f'@begin {number}' in lines else -1
        return status, '\n'.join(lines[begin + 1:lines.index(f'@end {number} {status}')])

    def run(self, command, seconds=COMMAND_SECONDS, check=True):
        """Run a shell command in the guest: (status, output). Raises if check and status."""
        status, output = self.finish(self.start(command), seconds)
        if check and status:
            raise GuestFault(f'`{command}` in the guest ended with {status}: {output}')
        return status, output

    def read(self, path):
        return self.run(f'cat {path}')[1].strip()

    def hold(self, mib):
        """Let the guest take and hold memory, until let_go()."""
        mark = len(self.control.lines)
        self.run(f'memhog {mib} & echo $! >/tmp/hog')
        self._wait_line(f'holding {mib}', COMMAND_SECONDS, mark)

    def let_go(self):
        self.run('kill $(cat /tmp/hog); '
                 'while kill -0 $(cat /tmp/hog) 2>/dev/null; do usleep 10000; done')

    # The host's view

    def rss(self):
        """Bytes of the QEMU process that are in the host's memory."""
        if self.process.poll() is not None:
            raise GuestFault(f'QEMU ended; the console said last:\n{self.tail()}')
        pages = int(Path(f'/proc/{self.process.pid}/statm').read_text().split()[1])
        return pages * os.sysconf('SC_PAGE_SIZE')

    def delay(self):
        """query-balloon-report-delay"""
        return self.qmp.command('query-balloon-report-delay')

    def set_delay(self, delay_ms, wait=True):
        """Ask for a delay; with wait, until the guest has answered."""
        self.qmp.command('balloon-set-report-delay', delay_ms=delay_ms)
        if wait:
            self.wait_applied(delay_ms)

    def wait_applied(self, delay_ms, seconds=30):
        return wait_until(lambda: self.delay().get('applied-ms') == delay_ms, seconds,
                          lambda: f'{delay_ms} ms applied, it says {self.delay()}')

    def withdraw(self):
        """Withdraw the request and wait for the guest's answer to that.

        Without waiting, a guest that has not looked in between sees the same
        request again, which does not override it.
        """
        self.qmp.command('balloon-set-report-delay')
        wait_until(lambda: 'applied-ms' in self.delay(), 30, 'an answer to the withdrawal')

    def wait_quiet(self, seconds):
        """Wait until the guest reports no more: nothing for longer than its delay of 2 s and a pass."""
        last = [-1, time.monotonic()]

        def quiet():
            reports = self.delay()['reports']
            if reports != last[0]:
                last[:] = reports, time.monotonic()
            return time.monotonic() - last[1] > 5
        wait_until(quiet, seconds, 'the guest has reported all that is free')

    def settle(self, seconds=60):
        """Drain what is to be reported: until the host's memory stops falling."""
        self.set_delay(0)
        last, since = self.rss(), time.monotonic()
        start = since
        while time.monotonic() - since < 1.0:
            time.sleep(0.1)
            now = self.rss()
            if abs(now - last) > 2**20:
                last, since = now, time.monotonic()
            if time.monotonic() - start > seconds:
                raise TimeoutError(f'the host\'s memory has not settled in {seconds} s')
        return last

    def use_and_free(self, mib):
        """Let the guest use and free memory: the RSS (before, at the peak)."""
        before = self.rss()
        self.hold(mib)
        peak = self.rss()
        self.let_go()
        return before, peak
