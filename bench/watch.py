"""A process as the host sees it: its memory over time, CPU time, faults.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import threading
import time
from pathlib import Path

MIB = 2**20
PAGE = os.sysconf('SC_PAGE_SIZE')
TICK = os.sysconf('SC_CLK_TCK')
# How often memory is read: a hundredth of a CPU, and finer than any pass.
PERIOD_S = 0.001


def usage(pid):
    """(CPU seconds, minor faults) of a process since it began."""
    fields = Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK, int(fields[7])


def since(pid, before):
    """What usage() has grown by."""
    return tuple(now - then for now, then in zip(usage(pid), before))


class Curve:
    """The resident memory of a process, read by a thread until the end of the `with`."""

    def __init__(self, pid):
        self.points = []
        self.statm = os.open(f'/proc/{pid}/statm', os.O_RDONLY)
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        os.close(self.statm)

    def _read(self):
        while not self.ended.is_set():
            try:
                pages = int(os.pread(self.statm, 200, 0).split()[1])
            except (OSError, IndexError):
                return  # the process has ended
            self.points.append((time.monotonic(), pages * PAGE / MIB))
            time.sleep(PERIOD_S)

    def last(self):
        return self.points[-1][1]

    def first_below(self, start, mib):
        """Seconds from start to the first reading below, or None."""
        return next((at - start for at, value in self.points[:]
                     if at >= start and value <= mib), None)

    def back(self, start, base, peak, seconds, parts):
        """Wait until the last part is back: seconds from start to each of the parts.

        None for what is not back in time: the guest's per-CPU lists keep some.
        """
        goals = {part: peak - part * (peak - base) for part in parts}
        deadline = start + seconds
        while self.last() > min(goals.values()):
            if time.monotonic() > deadline:
                print(f'{self.last():.0f} MiB after {seconds} s, to fall from {peak:.0f} to '
                      f'{min(goals.values()):.0f}', flush=True)
                break
            time.sleep(0.01)
        return {part: self.first_below(start, goal) for part, goal in goals.items()}

    def thinned(self, start, step):
        """(seconds from start, MiB), a point for each `step` MiB of change."""
        kept = []
        for at, mib in self.points:
            if not kept or abs(mib - kept[-1][1]) >= step:
                if kept and at - start > kept[-1][0] + 2 * PERIOD_S:
                    kept.append((at - start - PERIOD_S, kept[-1][1]))
                kept.append((at - start, mib))
        kept.append((self.points[-1][0] - start, self.points[-1][1]))
        return kept
