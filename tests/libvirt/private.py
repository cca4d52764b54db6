"""A place of the test's own: namespaces in which libvirt's compiled-in folders are private.

enter(main) runs main() where /etc/libvirt, /var/lib/libvirt, /var/log/libvirt,
/var/cache/libvirt, /run, /opt and the network are the test's, in memory. All
processes in there end when main() does, and when this process is killed; no
file is left, no service of the machine is seen. Root is needed, by sudo if
that asks for no password: libvirtd starts QEMU as another user.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import ctypes
import fcntl
import grp
import os
import pwd
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import traceback
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
# linux/sched.h, linux/prctl.h, linux/sockios.h
CLONE_NEWNS, CLONE_NEWIPC = 0x00020000, 0x08000000
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000
PR_SET_PDEATHSIG = 1
SIOCSIFFLAGS, IFF_UP = 0x8914, 1

# libvirt's folder -> its name below a host's own folder
FOLDERS = {'/etc/libvirt': 'etc', '/var/lib/libvirt': 'lib', '/var/log/libvirt': 'log',
           '/var/cache/libvirt': 'cache', '/run/libvirt': 'run'}
QEMU_USER = 'libvirt-qemu'
QEMU_UID = 64055  # as Debian has it
TIED = 'TESTS_LIBVIRT_END_WITH_STDIN'


def _unshare(flags, what):
    if LIBC.unshare(flags):
        error = ctypes.get_errno()
        sys.exit(f'tests/libvirt: no {what}: {os.strerror(error)}')


def mount(*args):
    subprocess.run(['mount', *map(str, args)], check=True)


def end_with_parent():
    """For a child, before anything else: to be killed when its parent ends."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _exit_status(status):
    return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 1


def _reap_until(child):
    """The first process of a PID namespace buries all others."""
    while True:
        pid, status = os.wait()
        if pid == child:
            return _exit_status(status)


def _as_root():
    """Run all of this once more by sudo. Its end is tied to ours by a pipe: sudo is root's."""
    may = shutil.which('sudo') and not subprocess.run(
        ['sudo', '-n', 'true'], stderr=subprocess.DEVNULL, check=False).returncode
    if not may:
        sys.exit('tests/libvirt: needs root, or sudo without a password')
    keep = [f'{name}={value}' for name, value in os.environ.items()
            if name.startswith('REPORT_DELAY_')]
    ours = subprocess.Popen(['sudo', '-n', 'env', *keep, f'{TIED}=1', sys.executable, *sys.argv],
                            stdin=subprocess.PIPE)
    sys.exit(ours.wait())


def _wait_for(child):
    """The exit status of a child, which is killed when a tie to another process is cut."""
    if TIED not in os.environ:
        return _exit_status(os.waitpid(child, 0)[1])
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return _exit_status(status)
        if select.select([sys.stdin], [], [], 0.1)[0] and not os.read(0, 1):
            os.kill(child, signal.SIGKILL)
            return _exit_status(os.waitpid(child, 0)[1])


def _cover(path):
    """Make a folder that is in memory, and there; what is not there shows what it needs."""
    path = Path(path)
    existing = path
    while not existing.is_dir():
        existing = existing.parent
    # A folder that is missing cannot be made without leaving it behind.
    mount('-t', 'tmpfs', '-o', 'mode=755', 'report-delay', existing)
    path.mkdir(parents=True, exist_ok=True)


def _know_user():
    """libvirtd does not start without the user that QEMU is to run as."""
    try:
        pwd.getpwnam(QEMU_USER)
        grp.getgrnam(QEMU_USER)
        return
    except KeyError:
        pass
    passwd = [line for line in Path('/etc/passwd').read_text().splitlines()
              if not line.startswith(QEMU_USER + ':')]
    group = [line for line in Path('/etc/group').read_text().splitlines()
             if not line.startswith(QEMU_USER + ':')]
    group = [line + (',' if line[-1] != ':' else '') + QEMU_USER
             if line.startswith('kvm:') else line for line in group]
    passwd.append(f'{QEMU_USER}:x:{QEMU_UID}:{QEMU_UID}::/var/lib/libvirt:/usr/sbin/nologin')
    group.append(f'{QEMU_USER}:x:{QEMU_UID}:')
    for name, lines in (('passwd', passwd), ('group', group)):
        Path(f'/run/{name}').write_text('\n'.join(lines) + '\n', encoding='utf-8')
        mount('--bind', f'/run/{name}', f'/etc/{name}')


def _loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack('16sH14x', b'lo', IFF_UP))


def _own_mounts():
    """From here on, what is mounted is seen by nobody else."""
    done = subprocess.run(['mount', '--make-rprivate', '/'], capture_output=True, check=False)
    if done.returncode == 0:
        return
    # The root of a chroot that is no mount point: make it one, if that stays here.
    if ' shared:' in Path('/proc/self/mountinfo').read_text():
        sys.exit('tests/libvirt: / is no mount point: bind this chroot\'s folder to itself first')
    mount('--rbind', '/', '/mnt')
    os.chroot('/mnt')
    os.chdir('/')


def _furnish(prepare):
    _own_mounts()
    mount('-t', 'proc', 'proc', '/proc')
    # Of the new network, which is empty; a container may not allow it.
    subprocess.run(['mount', '-t', 'sysfs', 'sysfs', '/sys'], stderr=subprocess.DEVNULL,
                   check=False)
    if Path('/sys/fs/cgroup').is_dir():
        mount('-t', 'tmpfs', 'report-delay', '/sys/fs/cgroup')
    mount('-t', 'tmpfs', '-o', 'mode=755', 'report-delay', '/run')
    Path('/run/lock').mkdir()
    prepare()  # while the machine's other folders are still seen
    _know_user()
    for folder in FOLDERS:
        if folder.startswith('/run'):
            Path(folder).mkdir()
        else:
            _cover(folder)
    _cover('/opt')
    _loopback_up()


def bind_host(name):
    """Lay the folders of one host, /run/NAME/..., over libvirt's, for the calling process."""
    for folder, ours in FOLDERS.items():
        mount('--bind', f'/run/{name}/{ours}', folder)


def unshare_mounts():
    """For a child: mounts of its own, so that bind_host() is seen by nobody else."""
    _unshare(CLONE_NEWNS, 'mount namespace')
    mount('--make-rprivate', '/')


def enter(main, prepare):
    """Run main() in there; prepare() runs before, and may copy files to /run. Does not return."""
    if os.getuid() != 0:
        _as_root()
    _unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC, 'namespace')
    sys.stdout.flush()
    first = os.fork()
    if first:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: os.kill(first, signal.SIGKILL))
        sys.exit(_wait_for(first))
    end_with_parent()
    test = os.fork()
    if test:
        os._exit(_reap_until(test))  # pylint: disable=protected-access
    status = 1
    try:
        _furnish(prepare)
        main()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
        if end.code and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
    except BaseException:  # pylint: disable=broad-exception-caught
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)  # pylint: disable=protected-access
