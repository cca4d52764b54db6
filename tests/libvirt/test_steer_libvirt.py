"""balloon-steer through libvirt: as installed, two domains, a libvirtd that comes and goes.

usage: test_steer_libvirt.py [PART-OF-A-NAME...]

What the host has left is real; the floor that is asked for is raised above it
and lowered again, by a reload. The tests build on each other.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import os
import signal
import subprocess
from pathlib import Path

from host import PREFIX, Console, Host, domain_xml, enter, wait_until
from guest import available_mib
import private
import tap

STEER = f'{PREFIX}/sbin/balloon-steer'
NAMES = ('alpha', 'beta')
CALM_MS, URGENT_MS, OWN_MS = 30000, 50, 2000
# TimeoutStopSec of the unit.
STOP_SECONDS = 15
CONFIG = Path('/run/steer.conf')
TEXT = '''
[daemon]
qmp-folder =
libvirt-uri = qemu:///system
control-socket = /run/steer-control
lock-file = /run/steer-lock
psi = off
[policy]
floor-mib = {floor}
hold-ms = 300
hold-max-ms = 300
jitter-ms = 0
tight-tte-ms = 0
urgent-tte-ms = 0
'''
host = None
steer = None


class Steer:
    """The daemon, and what it says."""

    def __init__(self):
        self.process = None
        self.is_calm()

    @staticmethod
    def is_calm():
        """CALM is from 8 F up."""
        CONFIG.write_text(TEXT.format(floor=available_mib() // 40))

    @staticmethod
    def is_short():
        """URGENT, and not below F/2, where the delay is 0 for a moment."""
        CONFIG.write_text(TEXT.format(floor=available_mib() * 10 // 7))

    def start(self):
        with open('/run/steer.log', 'ab') as log:
            self.process = subprocess.Popen(
                [STEER, 'run', '--config', CONFIG], stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, preexec_fn=private.end_with_parent)

    def reload(self):
        self.process.send_signal(signal.SIGHUP)

    def stop(self):
        """SIGTERM: it ends well, and in time."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(STOP_SECONDS) == 0, self.said()

    def status(self):
        done = subprocess.run([STEER, 'status', '--json', '--config', CONFIG], capture_output=True,
                              text=True, check=True, timeout=30)
        return json.loads(done.stdout)

    @staticmethod
    def said():
        return Path('/run/steer.log').read_text(errors='replace')[-3000:]

    def wait_said(self, words, seconds=30, after=0):
        wait_until(lambda: words in Path('/run/steer.log').read_text(errors='replace')[after:],
                   seconds, lambda: f'"{words}" in:\n{self.said()}')


def wait_all(delay_ms, seconds=60):
    def applied():
        return {name: host.delay(name).get('applied-ms') for name in NAMES}
    wait_until(lambda: set(applied().values()) == {delay_ms}, seconds,
               lambda: f'{delay_ms} ms everywhere, it is {applied()}; the daemon says:\n{steer.said()}')


def boot(name):
    host.define(domain_xml(name, memory_mib=512))
    host.virsh('start', name)
    host.wait_applied(OWN_MS, name)


def vms():
    return {vm['name']: vm for vm in steer.status()['vms']}


def test_found():
    boot('alpha')
    steer.start()
    host.wait_applied(CALM_MS, 'alpha')
    # By libvirt's event: nothing else tells that a domain was started.
    host.define(domain_xml('beta', memory_mib=512))
    host.virsh('start', 'beta')
    wait_all(CALM_MS, 120)
    for name in NAMES:
        delay = host.delay(name)
        assert delay['requested-ms'] == CALM_MS and delay['lease-left-ms'] > 0, delay
    assert set(vms()) == set(NAMES), vms()


def test_short():
    held = {}
    for name in NAMES:
        with Console(host, name) as console:
            console.hold(200)
            held[name] = host.memstat(name)['rss']
            console.let_go()
    steer.is_short()
    steer.reload()
    wait_all(URGENT_MS)
    for name in NAMES:
        # Of the 200, what is not in blocks of 2 MiB stays.
        wait_until(lambda name=name: host.memstat(name)['rss'] < held[name] - 150 * 1024, 60,
                   lambda name=name: f'{held[name]} KiB held, {host.memstat(name)}')
        host.check_kernel(name)
    steer.is_calm()
    steer.reload()
    wait_all(CALM_MS)


def test_libvirtd_restarts():
    start = len(Path('/run/steer.log').read_bytes())
    host.stop('libvirtd')
    steer.wait_said('no connection to libvirt', after=start)
    wait_until(lambda: not any(vm['up'] for vm in vms().values()), 30,
               lambda: f'nobody connected, {vms()}')
    host.start('libvirtd')
    steer.wait_said('connected to libvirt again', after=start)
    for name in NAMES:
        with Console(host, name) as console:
            console.hold(100)
            console.let_go()
    steer.is_short()
    steer.reload()
    wait_all(URGENT_MS)
    steer.is_calm()
    steer.reload()
    wait_all(CALM_MS)


def test_domain_goes():
    host.virsh('destroy', 'beta')
    wait_until(lambda: set(vms()) == {'alpha'}, 30, lambda: f'alpha alone, {vms()}')
    host.virsh('start', 'beta')
    wait_all(CALM_MS, 120)


def test_stop():
    steer.stop()
    for name in NAMES:
        host.wait_applied(OWN_MS, name, 10)
        assert 'requested-ms' not in host.delay(name)


def test_libvirtd_hangs():
    steer.start()
    wait_all(CALM_MS)
    daemon = next(d for d in host.daemons if d.args[0] == 'libvirtd')
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        steer.stop()
        assert 'a call to a VM hangs' in steer.said(), steer.said()
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
    # What the unit's ExecStopPost does, now that libvirtd answers.
    subprocess.run([STEER, 'withdraw', '--all', '--config', CONFIG], check=True, timeout=30)
    for name in NAMES:
        host.wait_applied(OWN_MS, name, 10)


def main():
    global host, steer  # pylint: disable=global-statement
    with Host() as host:
        version = subprocess.run(['libvirtd', '--version'], capture_output=True, text=True,
                                 check=True).stdout.strip()
        tap.note(f'{version}, {available_mib()} MiB available')
        steer = Steer()
        try:
            tap.run([
                ('domains found: those that run, and one that starts', test_found),
                ('short of memory: all short, and memory back; relaxed again', test_short),
                ('libvirtd restarted: steering resumes', test_libvirtd_restarts),
                ('a domain destroyed and started', test_domain_goes),
                ('SIGTERM withdraws', test_stop),
                ('a libvirtd that hangs does not hold up the end', test_libvirtd_hangs),
            ])
        finally:
            if steer.process:
                steer.process.kill()
                steer.process.wait()


if __name__ == '__main__':
    enter(main)
