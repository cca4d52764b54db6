"""A guest steered through libvirt: real libvirtd, real virsh, our QEMU as installed.

usage: test_libvirt.py [--long] [PART-OF-A-NAME...]

Everything is asked and seen through virsh. --long adds what else a host does
with a domain: its memory statistics and balloon, pause, save, managed save,
snapshots, migration to a second libvirtd and back.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import contextlib
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

from host import (NAME, PAGE, PREFIX, QEMU_NS, Console, Host, QMPError, VirshError, accelerator,
                  domain_xml, enter, wait_until)
import tap

MIB = 1024  # KiB, the unit of dommemstat
LOCAL = 'tcp://127.0.0.1'
# A request of a long delay: nothing is reported unasked.
LAZY_MS = 600000
IMAGES = '/var/lib/libvirt/images'
host = None


@contextlib.contextmanager
def running(**how):
    """The domain, defined and booted; its console."""
    host.define(domain_xml(**how))
    try:
        host.virsh('start', NAME)
        with Console(host) as console:
            host.wait_applied(2000)
            yield console
        host.check_kernel()
    finally:
        host.virsh('destroy', NAME, check=False)
        host.virsh('undefine', NAME, '--managed-save', '--snapshots-metadata', check=False)
        (host.base / f'log/qemu/{NAME}-kernel.log').unlink(missing_ok=True)


def request(delay_ms, at=None, **more):
    (at or host).qmp(NAME, 'balloon-set-report-delay', delay_ms=delay_ms, **more)


def steers(console, delay_ms, at=None):
    """The host asks, the guest does: the query's answer, and the guest's own sysctl."""
    request(delay_ms, at)
    (at or host).wait_applied(delay_ms)
    assert console.delay() == delay_ms


def test_short():
    with running() as console:
        delay = host.delay()
        assert delay['offered'] and delay['negotiated'] and 'requested-ms' not in delay, delay
        # What is free is held by the host, until it asks for it.
        steers(console, LAZY_MS)
        console.hold(400)
        held = host.memstat()['rss']
        console.let_go()
        kept = host.memstat()['rss']
        assert kept > held - 40 * MIB, f'{held} KiB held, {kept} KiB after that, at {LAZY_MS} ms'
        before = host.delay()['discarded-bytes']
        start = time.monotonic()
        request(0)
        wait_until(lambda: host.memstat()['rss'] < held - 360 * MIB, 60,
                   lambda: f'{held} KiB held, {host.memstat()}, {host.delay()}')
        tap.note(f'400 MiB back after {time.monotonic() - start:.2f} s, as dommemstat sees it')
        delay = host.delay()
        assert delay['applied-ms'] == 0 and delay['discarded-bytes'] - before > 360 * MIB * 1024
        assert console.delay() == 0
    assert NAME not in host.virsh('list', '--all', '--name').split()


def event_after(ask):
    """What `virsh qemu-monitor-event` prints about what ask() leads to."""
    watch = subprocess.Popen(host.command('qemu-monitor-event', NAME, '--event',
                                          'BALLOON_REPORT_DELAY_CHANGE', '--timeout', '60'),
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    time.sleep(3)  # it does not say when it listens; it takes 0.1 s
    ask()
    return watch.communicate(timeout=90)[0]


def test_every_way_in():
    with running() as console:
        text = event_after(lambda: request(300))
        assert 'event BALLOON_REPORT_DELAY_CHANGE at ' in text, text
        assert 'events received: 1' in text, text
        assert '"requested-ms":300' in text and '"applied-ms":300' in text, text
        assert console.delay() == 300

        host.virsh('qemu-monitor-command', NAME, '--hmp', 'balloon_report_delay 400')
        host.wait_applied(400)
        assert console.delay() == 400
        info = host.virsh('qemu-monitor-command', NAME, '--hmp', 'info balloon_report_delay')
        assert 'requested: 400 ms\napplied: 400 ms\n' in info, info

        where = {'path': '/machine/peripheral/balloon0', 'property': 'report-delay-ms'}
        host.qmp(NAME, 'qom-set', value=500, **where)
        host.wait_applied(500)
        assert console.delay() == 500 and host.qmp(NAME, 'qom-get', **where) == 500

        request(600, lease_ms=3000)
        host.wait_applied(600)
        assert 0 < host.delay()['lease-left-ms'] <= 3000
        host.wait_applied(2000)  # the lease ends
        assert 'requested-ms' not in host.delay() and console.delay() == 2000

        # The guest overrides the host, and the host sees it.
        request(700)
        host.wait_applied(700)
        console.run('echo 800 >/proc/sys/vm/page_reporting_delay_ms')
        host.wait_applied(800)
        assert host.delay()['requested-ms'] == 700
        host.virsh('qemu-monitor-command', NAME, 'balloon-set-report-delay')
        try:
            request(600001)
            raise AssertionError('600001 ms are taken')
        except QMPError as error:
            assert error.cls == 'GenericError' and '600000' in error.desc, error


def without_override(tree):
    tree.remove(tree.find(f'{{{QEMU_NS}}}override'))


def by_commandline(tree):
    """What a libvirt older than 8.2 knows."""
    without_override(tree)
    arguments = ET.SubElement(tree, f'{{{QEMU_NS}}}commandline')
    for value in ('-global', 'virtio-balloon-pci.report-delay=on'):
        ET.SubElement(arguments, f'{{{QEMU_NS}}}arg').set('value', value)


def test_commandline():
    with running(change=by_commandline) as console:
        steers(console, 300)
        info = host.virsh('dominfo', NAME)
        assert 'tainted: custom configuration parameters specified' in info, info


def test_statistics_and_balloon():
    with running() as console:
        steers(console, 300)
        wait_until(lambda: 'unused' in host.memstat(), 60, 'statistics of the guest')
        for mib in (768, 1024):
            host.virsh('setmem', NAME, f'{mib}M', '--live')
            wait_until(lambda want=mib * MIB: host.memstat()['actual'] == want, 60,
                       lambda: f'{host.memstat()}')
            delay = host.delay()
            assert delay['applied-ms'] == delay['requested-ms'] == 300 == console.delay(), delay
        # A change of the period is a QMP command to the same device.
        host.virsh('dommemstat', NAME, '--period', '1', '--live')
        then = host.memstat()['last_update']
        wait_until(lambda: host.memstat()['last_update'] > then, 60, 'newer statistics')
        steers(console, 400)


def test_pause():
    with running() as console:
        host.virsh('suspend', NAME)
        request(300)
        time.sleep(1)  # a paused guest does not answer: wait longer than one that runs takes
        assert 'applied-ms' not in host.delay()
        host.virsh('resume', NAME)
        host.wait_applied(300)
        assert console.delay() == 300


def goes_on(delay_ms):
    """After a restore: the request is there, answered, and the guest is steered on."""
    host.wait_applied(delay_ms)
    delay = host.delay()
    assert delay['negotiated'] and delay['requested-ms'] == delay_ms, delay
    with Console(host) as console:
        assert console.delay() == delay_ms
        steers(console, delay_ms + 1)
        request(LAZY_MS)
        host.wait_applied(LAZY_MS)
        console.hold(200)
        held = host.memstat()['rss']
        console.let_go()
        request(0)
        # Of the 200, what is not in blocks of 2 MiB stays.
        wait_until(lambda: host.memstat()['rss'] < held - 150 * MIB, 60,
                   lambda: f'{held} KiB held, {host.memstat()}')


def test_save():
    with running() as console:
        steers(console, 300)
        request(400, lease_ms=3600000)
        host.wait_applied(400)
        host.virsh('save', NAME, '/run/steered.save')
        host.virsh('restore', '/run/steered.save')
        os.unlink('/run/steered.save')
        left = host.delay()['lease-left-ms']
        assert 3400000 < left < 3600000, left
        goes_on(400)


def test_managed_save():
    with running() as console:
        steers(console, 300)
        host.virsh('managedsave', NAME)
        assert 'shut off' in host.virsh('domstate', NAME)
        host.virsh('start', NAME)
        goes_on(300)


def with_disk(tree):
    tree.find('devices').append(ET.fromstring(
        f"<disk type='file' device='disk'><driver name='qemu' type='qcow2'/>"
        f"<source file='{IMAGES}/{NAME}.qcow2'/><target dev='vda' bus='virtio'/></disk>"))


def test_snapshot():
    disk = Path(f'{IMAGES}/{NAME}.qcow2')
    subprocess.run([f'{PREFIX}/bin/qemu-img', 'create', '-q', '-f', 'qcow2', disk, '64M'],
                   check=True)
    with running(change=with_disk) as console:
        steers(console, 300)
        host.virsh('snapshot-create-as', NAME, 'before')
        assert host.delay()['applied-ms'] == 300
        steers(console, 400)
        host.virsh('snapshot-revert', NAME, 'before')
        goes_on(300)
        # The memory to a file, the guest running: a migration of QEMU.
        request(500)
        host.wait_applied(500)
        host.virsh('snapshot-create-as', NAME, 'outside', '--live',
                   '--memspec', '/run/steered.memory', '--diskspec',
                   f'vda,file={IMAGES}/{NAME}.overlay')
        assert os.path.getsize('/run/steered.memory') > 10 * 2**20
        os.unlink('/run/steered.memory')
        goes_on(500)


def refused(other, xml):
    """Migrate to a domain that is not the same: virsh's words; the source goes on."""
    path = Path('/run/other.xml')
    path.write_text(xml, encoding='utf-8')
    try:
        host.virsh('migrate', '--live', NAME, other.uri, '--migrateuri', LOCAL, '--xml', path)
    except VirshError as error:
        return str(error)
    raise AssertionError('it has gone to a QEMU without the feature')


def test_migration():
    with Host('b', first=False) as other:
        uuids = {h.virsh('capabilities').split('<uuid>')[1].split('<')[0] for h in (host, other)}
        assert len(uuids) == 2, uuids
        with running() as console:
            steers(console, 300)
            request(400, lease_ms=3600000)
            host.wait_applied(400)
            tree = ET.fromstring(host.virsh('dumpxml', NAME, '--migratable'))
            without_override(tree)
            words = refused(other, ET.tostring(tree, encoding='unicode'))
            tap.note(f'without the override on the target: {words.splitlines()[-1]}')
            why = "the migration stream has a report delay: start the target with 'report-delay=on'"
            assert why in (other.base / f'log/qemu/{NAME}.log').read_text() and why in PAGE
            assert 'running' in host.virsh('domstate', NAME)
            steers(console, 401)
            request(400, lease_ms=3600000)
            host.wait_applied(400)

            host.virsh('migrate', '--live', '--persistent', NAME, other.uri, '--migrateuri', LOCAL)
            assert 'shut off' in host.virsh('domstate', NAME)
            other.wait_applied(400)
            delay = other.delay()
            assert delay['negotiated'] and delay['requested-ms'] == 400, delay
            assert 3000000 < delay['lease-left-ms'] < 3600000, delay
            with Console(other) as there:
                assert there.delay() == 400
                steers(there, 500, at=other)
            # And back, the daemons talking to each other.
            other.virsh('migrate', '--live', '--p2p', NAME, host.uri, '--migrateuri', LOCAL)
            assert other.virsh('list', '--name').split() == []
            other.check_kernel()
            goes_on(500)


def descendants(pid):
    """All processes below one, itself included."""
    parents = {}
    for stat in Path('/proc').glob('[0-9]*/stat'):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(')')[2].split()
            parents[int(stat.parent.name)] = int(fields[1])
    found = {pid}
    while new := {child for child, parent in parents.items() if parent in found} - found:
        found |= new
    return found


def names(pids):
    result = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            stat = Path(f'/proc/{pid}/stat').read_text()
            if stat.rpartition(')')[2].split()[0] != 'Z':
                result[pid] = stat.partition('(')[2].rpartition(')')[0]
    return result


def command_line(pid):
    try:
        return Path(f'/proc/{pid}/cmdline').read_text(errors='replace')
    except OSError:
        return ''  # it has ended


def machine():
    """What a test must not change: libvirt's folders and the mounts of this machine."""
    folders = ('/etc/libvirt', '/var/lib/libvirt', '/var/log/libvirt', '/var/cache/libvirt',
               '/run/libvirt', '/opt', '/run/lock')
    return (Path('/proc/self/mountinfo').read_text(),
            sorted(str(p) for folder in folders for p in Path(folder).rglob('*')))


def test_killed():
    """Runs on the machine itself: a test that is killed half-way leaves nothing."""
    before = machine()
    for number in (signal.SIGTERM, signal.SIGKILL):
        child = subprocess.Popen([sys.executable, __file__, 'memory back'], start_new_session=True,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        family = {}

        def domain_runs(child=child, family=family):
            family.update(names(descendants(child.pid)))
            return any(f'guest={NAME}' in command_line(pid) for pid in family)

        try:
            wait_until(domain_runs, 120, lambda: f'no domain, but {family}')
            family.update(names(descendants(child.pid)))
        finally:
            child.send_signal(number)
        child.wait(30)
        # Soon: left alone, it would be done in some seconds more.
        wait_until(lambda: not names(family), 4, lambda: f'left: {names(family)}')
        assert machine() == before


TESTS = [('set, applied, memory back, destroyed', test_short)]
LONG_TESTS = [
    ('QMP, HMP, QOM, the event, a lease, and the guest\'s own say', test_every_way_in),
    ('by qemu:commandline', test_commandline),
    ('dommemstat and setmem', test_statistics_and_balloon),
    ('suspend and resume', test_pause),
    ('save and restore', test_save),
    ('managedsave and start', test_managed_save),
    ('snapshots, inside and outside of the disk', test_snapshot),
    ('migration to another libvirtd and back', test_migration),
]


def main():
    global host  # pylint: disable=global-statement
    long = '--long' in sys.argv
    sys.argv = [a for a in sys.argv if a != '--long']
    with Host() as host:
        version = subprocess.run(['libvirtd', '--version'], capture_output=True, text=True,
                                 check=True).stdout.strip()
        tap.note(f'{version}, domain type {"kvm" if accelerator() == "kvm" else "qemu"}')
        tap.run(TESTS + (LONG_TESTS if long else []))


if __name__ == '__main__':
    if sys.argv[1:] == ['--killed']:
        sys.argv.pop()
        tap.run([('a test that is killed leaves nothing', test_killed)])
    enter(main)
