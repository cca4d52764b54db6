"""Other targets: virtio-ccw has the device, a target without a balloon says so.

Needs build/qemu-other (scripts/build qemu-other), so this is for check-thorough.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import socket
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'guest'))
import tap  # pylint: disable=wrong-import-position
from qmp import QMP, QMPError  # pylint: disable=wrong-import-position

BUILD = Path(__file__).resolve().parents[2] / 'build/qemu-other'


class VM:
    """A QEMU of some target that runs no guest code."""

    def __init__(self, target, *options):
        qmp, child = socket.socketpair()
        self.process = subprocess.Popen(
            ['setpriv', '--pdeathsig', 'KILL', BUILD / f'qemu-system-{target}', '-S', '-nodefaults',
             '-display', 'none', '-chardev', f'socket,id=qmp,fd={child.fileno()}',
             '-mon', 'chardev=qmp,mode=control', *options],
            pass_fds=[child.fileno()], stdin=subprocess.DEVNULL)
        child.close()
        self.qmp = QMP(qmp)

    def __enter__(self):
        return self.qmp

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def test_ccw():
    with VM('s390x', '-machine', 's390-ccw-virtio', '-device',
            'virtio-balloon-ccw,id=balloon0,free-page-reporting=on,report-delay=on,'
            'report-delay-ms=700') as qmp:
        assert qmp.command('query-balloon-report-delay')['requested-ms'] == 700
        qmp.command('balloon-set-report-delay', delay_ms=50)
        assert qmp.command('qom-get', path='/machine/peripheral/balloon0',
                           property='report-delay-ms') == 50
        qmp.command('qom-set', path='/machine/peripheral/balloon0',
                    property='report-delay-ms', value=-1)
        assert 'requested-ms' not in qmp.command('query-balloon-report-delay')


def test_no_balloon():
    with VM('avr', '-machine', 'uno') as qmp:
        for command, arguments in (('query-balloon-report-delay', {}),
                                   ('balloon-set-report-delay', {'delay_ms': 5})):
            try:
                qmp.command(command, **arguments)
            except QMPError as error:
                assert error.cls == 'DeviceNotActive' and 'without virtio-balloon' in error.desc
            else:
                raise AssertionError(f'{command} works without a balloon')


if __name__ == '__main__':
    if not BUILD.exists():
        sys.exit('test_targets.py: build/qemu-other is not built: run `scripts/build qemu-other`')
    tap.run([('virtio-balloon-ccw has the report delay', test_ccw),
             ('a target without a balloon says so', test_no_balloon)])
