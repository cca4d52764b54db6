"""balloon-steer on a host that is as short of memory as the bench says.

    with Steer(folder) as steer:      # sockets of QEMUs in folder/qmp
        steer.calm()
        steer.short()

Its /proc is a folder of the bench's: available memory and pressure are what the
bench writes, the memory of the QEMU processes is their own.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import subprocess
from pathlib import Path

from guest import BUILD, wait_until

BINARY = BUILD / 'steer/balloon-steer'
FLOOR_MIB = 1000
# In MiB: far above the floor; TIGHT; below the floor but not so far that 0 is asked.
CALM_MIB, TIGHT_MIB, SHORT_MIB = 100 * FLOOR_MIB, FLOOR_MIB * 19 // 10, FLOOR_MIB * 9 // 10
CONFIG = '''
[daemon]
qmp-folder = {folder}/qmp
control-socket = {folder}/control
lock-file = {folder}/lock
proc-folder = {folder}/proc
psi = totals
[policy]
floor-mib = {floor}
hold-ms = {hold_ms}
hold-max-ms = {hold_ms}
jitter-ms = 0
{more}
'''


class Steer:
    """The daemon, from start() to stop(). more: lines for [policy]."""

    def __init__(self, folder, pids=(), hold_ms=1000, more=''):
        self.folder = Path(folder)
        self.process = None
        (self.folder / 'qmp').mkdir(exist_ok=True)
        proc = self.folder / 'proc'
        (proc / 'pressure').mkdir(parents=True, exist_ok=True)
        (proc / 'zoneinfo').write_text('Node 0, zone Normal\n        high 1000\n')
        (proc / 'pressure/memory').write_text('some total=0\nfull total=0\n')
        for pid in pids:
            (proc / str(pid)).symlink_to(f'/proc/{pid}')
        (self.folder / 'steer.conf').write_text(
            CONFIG.format(folder=self.folder, floor=FLOOR_MIB, hold_ms=hold_ms,
                          more=more))
        self.calm()

    def _available(self, mib):
        # In place, and of one length: a reader never sees half of it.
        path = self.folder / 'proc/meminfo'
        text = f'MemTotal: {2**30:12} kB\nMemFree: {mib * 1024:12} kB\nMemAvailable: {mib * 1024:12} kB\n'
        with path.open('r+' if path.exists() else 'w', encoding='ascii') as file:
            file.write(text)

    def calm(self):
        self._available(CALM_MIB)

    def tight(self):
        """Where memory that runs out is before it is short; ticks are short there."""
        self._available(TIGHT_MIB)

    def short(self):
        self._available(SHORT_MIB)

    def start(self):
        if not BINARY.exists():
            raise FileNotFoundError(f'{BINARY} is not built: run `make steer`')
        with open(self.folder / 'log', 'ab') as log:
            self.process = subprocess.Popen(
                ['setpriv', '--pdeathsig', 'KILL', BINARY, 'run', '--config',
                 self.folder / 'steer.conf'],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop(self):
        """It withdraws what it has asked for."""
        if self.process:
            self.process.terminate()
            self.process.wait(30)
            self.process = None

    def said(self):
        return (self.folder / 'log').read_text(errors='replace')[-2000:]

    def wait(self, guests, accept, seconds=60):
        """Until accept(applied-ms) is true of each guest."""
        def applied():
            return [guest.delay().get('applied-ms') for guest in guests]
        return wait_until(lambda: all(ms is not None and accept(ms) for ms in applied()), seconds,
                          lambda: f'it is {applied()}; the daemon says:\n{self.said()}')

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        if self.process:
            self.process.kill()
            self.process.wait()
