"""A libvirt host of the test's own: virtlogd, libvirtd, virsh, our QEMU as installed.

    with Host('a') as host:
        host.virsh('define', ...)
        with Console(host, 'steered') as console:
            console.run('sysctl vm.page_reporting_delay_ms')

Runs in the place that private.enter() makes. The domain is the one of
docs/operating.rst, so that what the page shows is what is tested.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
import uuid
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tests/guest'))
# pylint: disable=wrong-import-position
import private
from guest import BUILD, FAULT, accelerator, wait_until

PAGE = (ROOT / 'docs/operating.rst').read_text(encoding='utf-8')
QEMU_NS = 'http://libvirt.org/schemas/domain/qemu/1.0'
PREFIX = '/opt/report-delay'
NAME = 'steered'
SERIES = '6.12'

# As for tests/guest: under TCG, on a machine that also builds something.
START_SECONDS = 120
ANSWER_SECONDS = 120

# What libvirtd would do on the real machine it has no business to do here.
LIBVIRTD_CONF = '''
auth_unix_ro = "none"
auth_unix_rw = "none"
unix_sock_rw_perms = "0700"
log_outputs = "3:file:/var/log/libvirt/libvirtd.log"
host_uuid = "{uuid}"
'''
# AppArmor and cgroups are the machine's, and so is /dev. Cores: not every root
# may raise its limits.
QEMU_CONF = '''
security_driver = "none"
cgroup_controllers = []
namespaces = []
max_core = 0
'''


class VirshError(Exception):
    """virsh has ended with a status that is not 0; the text is what it printed."""


class QMPError(Exception):
    """QEMU's answer is an error: .cls and .desc as in QMP."""

    def __init__(self, error):
        super().__init__(f"{error['class']}: {error['desc']}")
        self.cls, self.desc = error['class'], error['desc']


def ready():
    """Raise if something that is needed is not built or not installed."""
    for needed in (BUILD / 'qemu/qemu-system-x86_64', BUILD / f'guest/{SERIES}/bzImage',
                   BUILD / 'guest/initramfs.cpio.gz'):
        if not needed.exists():
            sys.exit(f'tests/libvirt: {needed} is not built: run `make qemu guest`')
    # virsh in English, and to where it goes by itself.
    for name in ('LIBVIRT_DEFAULT_URI', 'VIRSH_DEFAULT_CONNECT_URI', 'LANGUAGE'):
        os.environ.pop(name, None)
    os.environ['LC_ALL'] = 'C'
    path = os.environ.get('PATH', '') + ':/usr/sbin:/sbin'
    os.environ['PATH'] = path
    for program in ('virsh', 'libvirtd', 'virtlogd'):
        if not any(os.access(Path(folder) / program, os.X_OK) for folder in path.split(':')):
            sys.exit(f'tests/libvirt: there is no {program}: run `scripts/setup libvirt`')


def prepare():
    """Copy what a host gets to where it is kept in memory; install QEMU as a user does."""
    env = dict(os.environ, DESTDIR='/run/target', prefix=PREFIX)
    subprocess.run([ROOT / 'scripts/install'], env=env, stdout=subprocess.DEVNULL, check=True)
    images = Path('/run/images')
    images.mkdir()
    for name, source in (('bzImage', BUILD / f'guest/{SERIES}/bzImage'),
                         ('initramfs.cpio.gz', BUILD / 'guest/initramfs.cpio.gz')):
        (images / name).write_bytes(source.read_bytes())


def enter(main):
    """Check, go where the test's own libvirt can live, and run main() there."""
    ready()
    private.enter(main, prepare)


def domain_xml(name=NAME, change=None, memory_mib=None, cmdline=''):
    """The domain of docs/operating.rst, with another name and more; change(tree) edits it."""
    ET.register_namespace('qemu', QEMU_NS)
    text = re.search(r'\.\. code-block:: xml\n\n((?:    .*\n|\n)+)', PAGE).group(1)
    tree = ET.fromstring(text)
    tree.set('type', 'kvm' if accelerator() == 'kvm' else 'qemu')
    tree.find('name').text = name
    if memory_mib:
        tree.find('memory').text = str(memory_mib)
        tree.find('memory').set('unit', 'MiB')
    tree.find('os/cmdline').text += ' ' + cmdline
    for source in tree.iter('source'):
        source.set('path', source.get('path').replace(NAME, name))
    if change:
        change(tree)
    return ET.tostring(tree, encoding='unicode')


class Host:
    """One libvirt host. The first is where virsh goes by itself; others by .uri."""

    def __init__(self, name='a', first=True):
        self.name, self.first = name, first
        self.base = Path('/run') / name
        self.uri = f'qemu+unix:///system?socket={self.base}/run/libvirt-sock'
        self.daemons = []
        for folder in private.FOLDERS.values():
            (self.base / folder).mkdir(parents=True)
        (self.base / 'log/qemu').mkdir()
        images = self.base / 'lib/images'
        images.mkdir()
        for image in Path('/run/images').iterdir():
            shutil.copy(image, images)  # libvirtd changes its owner
        conf = LIBVIRTD_CONF.format(uuid=uuid.uuid4())
        (self.base / 'etc/libvirtd.conf').write_text(conf)
        (self.base / 'etc/qemu.conf').write_text(QEMU_CONF)
        if first:
            private.bind_host(name)
            Path(PREFIX).mkdir()
            private.mount('--bind', f'/run/target{PREFIX}', PREFIX)

    def __enter__(self):
        self.start('virtlogd')
        self.start('libvirtd')
        # QEMU is asked for its abilities now, which takes seconds.
        self.virsh('domcapabilities', '--emulatorbin', f'{PREFIX}/bin/qemu-system-x86_64',
                   '--virttype', 'qemu')
        return self

    def __exit__(self, *_):
        for domain in self.virsh('list', '--name', check=False).split():
            self.virsh('destroy', domain, check=False)
        for daemon in reversed(self.daemons):
            daemon.terminate()
            daemon.wait(30)

    def start(self, program):
        def child():
            private.end_with_parent()
            if not self.first:
                private.unshare_mounts()
                private.bind_host(self.name)

        log = open(self.base / f'log/{program}.out', 'wb')
        daemon = subprocess.Popen([program, '-p', self.base / f'{program}.pid'],
                                  stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                  preexec_fn=child)
        self.daemons.append(daemon)
        socket = self.base / ('run/virtlogd-sock' if program == 'virtlogd' else 'run/libvirt-sock')

        def up():
            if daemon.poll() is not None:
                raise VirshError(f'{program} ended:\n{self.log()}')
            return socket.exists()

        wait_until(up, START_SECONDS, f'{program} listens')

    def stop(self, program):
        """End a daemon; what it leaves behind does not look as if it were there."""
        for daemon in [d for d in self.daemons if d.args[0] == program]:
            daemon.terminate()
            daemon.wait(30)
            self.daemons.remove(daemon)
        for name in ('virtlogd-sock',) if program == 'virtlogd' else ('libvirt-sock', 'libvirt-sock-ro'):
            (self.base / 'run' / name).unlink(missing_ok=True)

    def log(self, lines=20):
        text = ''
        for file in sorted((self.base / 'log').glob('*')):
            if file.is_file():
                text += f'{file.name}:\n' + '\n'.join(file.read_text().splitlines()[-lines:]) + '\n'
        return text

    def command(self, *args):
        return ['virsh', *([] if self.first else ['-c', self.uri]), *map(str, args)]

    def virsh(self, *args, check=True, seconds=ANSWER_SECONDS):
        """Run virsh: what it prints, stderr too. If it fails and check: VirshError."""
        done = subprocess.run(self.command(*args), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=seconds, check=False)
        if done.returncode and check:
            raise VirshError(f'{shlex.join(self.command(*args))}: {done.stdout.strip()}')
        return done.stdout

    def define(self, xml):
        path = Path('/run/domain.xml')
        path.write_text(xml, encoding='utf-8')
        return self.virsh('define', path)

    def qmp(self, domain, command, **arguments):
        """qemu-monitor-command: the answer's "return". virsh's status is 0 for QMP errors, too."""
        message = {'execute': command}
        if arguments:
            message['arguments'] = {key.replace('_', '-'): value
                                    for key, value in arguments.items()}
        answer = json.loads(self.virsh('qemu-monitor-command', domain, json.dumps(message)))
        if 'error' in answer:
            raise QMPError(answer['error'])
        return answer['return']

    def delay(self, domain=NAME):
        return self.qmp(domain, 'query-balloon-report-delay')

    def wait_applied(self, delay_ms, domain=NAME, seconds=START_SECONDS):
        return wait_until(lambda: self.delay(domain).get('applied-ms') == delay_ms, seconds,
                          lambda: f'{delay_ms} ms applied, it says {self.delay(domain)}, the '
                                  f'kernel last:\n{self.kernel_log(domain)[-1500:]}')

    def memstat(self, domain=NAME):
        """dommemstat as a dict, in KiB."""
        return {key: int(value) for key, value in
                (line.split() for line in self.virsh('dommemstat', domain).splitlines() if line)}

    def kernel_log(self, domain=NAME):
        path = self.base / f'log/qemu/{domain}-kernel.log'
        return path.read_text(errors='replace') if path.exists() else ''

    def check_kernel(self, domain=NAME):
        for line in self.kernel_log(domain).splitlines():
            if FAULT.search(line):
                raise AssertionError(f'the kernel of {domain} says: {line}')


class Console:
    """The guest's shell, by `virsh console`, which wants a terminal."""

    count = 0

    def __init__(self, host, domain=NAME):
        self.domain = domain
        ours, theirs = pty.openpty()
        self.fd = ours
        self.text = ''
        self.process = subprocess.Popen(host.command('console', domain, '--force'), stdin=theirs,
                                        stdout=theirs, stderr=theirs, start_new_session=True,
                                        preexec_fn=private.end_with_parent)
        os.close(theirs)
        try:
            self._wait('Escape character is', ANSWER_SECONDS)
            self._wait_ready()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        os.close(self.fd)

    def _read(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            data = b''  # EIO: the other side is closed
        if not data:
            raise VirshError(f'virsh console {self.domain} ended: {self.text.strip()[-500:]}')
        self.text += data.decode(errors='replace').replace('\r', '')
        return True

    def _wait(self, pattern, seconds):
        """The match of a pattern in what has come since the last one."""
        deadline = time.monotonic() + seconds
        while not (match := re.search(pattern, self.text)):
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f'{self.domain}: no "{pattern}" within {seconds} s on the '
                                   f'console, it said: {self.text[-1000:]}')
            self._read(left)
        self.text = self.text[match.end():]
        return match

    def _mark(self):
        Console.count += 1
        return f'mark {os.getpid()} {Console.count}'

    def _wait_ready(self):
        """A command sent before init listens may be lost: ask until there is an answer."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            mark = self._mark()
            os.write(self.fd, f'echo @{mark}\n'.encode())
            try:
                self._wait(f'(?m)^@{mark}\n@end .*\n', 3)
                return
            except TimeoutError:
                if time.monotonic() > deadline:
                    raise

    def run(self, command, seconds=ANSWER_SECONDS):
        """Run a shell command in the guest; its output, without the frame of init.c."""
        mark = self._mark()
        os.write(self.fd, f'echo @{mark}; {command}\n'.encode())
        self._wait(f'(?m)^@{mark}\n', seconds)
        text = self._wait(r'(?ms)\A(.*?)^@end \d+ (\d+)\n', seconds)
        if text.group(2) != '0':
            raise AssertionError(f'`{command}` in {self.domain} ended with {text.group(2)}: '
                                 f'{text.group(1)}')
        return text.group(1).strip()

    def delay(self):
        return int(self.run('cat /proc/sys/vm/page_reporting_delay_ms'))

    def hold(self, mib):
        """Let the guest take and hold memory, until let_go()."""
        self.run(f'memhog {mib} >/tmp/held & echo $! >/tmp/hog; '
                 'while ! grep -q holding /tmp/held; do usleep 20000; done')

    def let_go(self):
        self.run('kill $(cat /tmp/hog); '
                 'while kill -0 $(cat /tmp/hog) 2>/dev/null; do usleep 10000; done')
