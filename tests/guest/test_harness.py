"""The harness itself: what is wrong with a guest fails the test, and nothing is left.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import signal
import subprocess
import sys
from pathlib import Path

import guest as harness
import tap
from guest import Guest, GuestFault, wait_until


def raises(kind, words, function):
    try:
        function()
    except kind as error:
        for word in words:
            assert word in str(error), f"'{word}' is not in: {error}"
        return
    raise AssertionError(f'no {kind.__name__}')


def gone(pid):
    return not Path(f'/proc/{pid}').exists() or \
        Path(f'/proc/{pid}/stat').read_text().split(')')[1].split()[0] == 'Z'


def test_panic():
    raises(GuestFault, ['Kernel panic'], lambda: Guest(append='rdinit=/none init=/none'))


def test_complaints():
    for line in ('<4>WARNING: CPU: 0 PID: 1 at mm/page_alloc.c:1', '<1>BUG: bad page state',
                 '<4>INFO: possible circular locking dependency detected'):
        with Guest() as guest:
            guest.run(f'echo "{line}" >/dev/kmsg')
            raises(GuestFault, [line[3:], 'the guest kernel says'], lambda g=guest: g.run('sleep 1'))
            guest.console.lines.clear()


def test_silence():
    with Guest() as guest:
        guest.run('echo "<1>the last words" >/dev/kmsg')
        raises(TimeoutError, ['within 1 s', 'the last words'],
               lambda: guest.run('sleep 30', seconds=1))
        pid = guest.process.pid
    assert gone(pid), 'QEMU is left'


def test_failing_command():
    with Guest() as guest:
        assert guest.run('echo one; exit 3', check=False) == (3, 'one')
        raises(GuestFault, ['ended with 3'], lambda: guest.run('exit 3'))
        raises(GuestFault, ['QEMU ended'], lambda: guest.run('poweroff -f'))


def test_killed_harness():
    here = Path(__file__).parent
    child = subprocess.Popen([sys.executable, '-c', 'from guest import Guest\n'
                              'guest = Guest()\n'
                              'print(guest.process.pid, flush=True)\n'
                              'guest.run("sleep 60")'], cwd=here, stdout=subprocess.PIPE, text=True)
    pid = int(child.stdout.readline())
    assert not gone(pid)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    wait_until(lambda: gone(pid), 30, 'the guest of a killed test ends')


def test_not_built():
    raises(FileNotFoundError, ['is not built', 'make'], lambda: Guest(series='0.0'))


def test_bad_device():
    raises(GuestFault, ['report-delay=on', 'free-page-reporting=on'],
           lambda: Guest(device='virtio-balloon-pci,report-delay=on'))


if __name__ == '__main__':
    tap.note(f'accelerator {harness.accelerator()}')
    tap.run([
        ('a panic fails', test_panic),
        ('a warning, a BUG, a lock problem fail', test_complaints),
        ('silence fails with the console\'s tail', test_silence),
        ('a command that fails, a guest that ends', test_failing_command),
        ('a killed test leaves no guest', test_killed_harness),
        ('what is not built is said', test_not_built),
        ('what QEMU says is passed on', test_bad_device),
    ])
