#!/usr/bin/python3
"""What does the feature cost a guest that does not use it? Page faults, stock and patched.

usage: overhead.py [--smoke] [--rounds N] [--ms N] [--times N] [--vcpus N]    make bench-overhead

The program `faults` (page_fault1 and page_fault2 of will-it-scale, in its own
words) on four sides: a stock kernel, a patched one with the feature not offered,
offered and left alone, and changed ten times a second; free page reporting is
on in all of them. Instructions are counted: with one vCPU under -icount shift=0
the guest's clock goes on by a nanosecond with each. Faults a second of wall time
besides, on one vCPU and on N. In turn, one guest running at a time. The code of
mm/page_alloc.o is compared, stock's and ours.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import contextlib
import difflib
import re
import threading

from record import Bench, ratios, spread, turns, where
from guest import BUILD, DEVICE, REPORTING, Guest
from test_off import code

# side: (kernel, device, the host changes the delay)
SIDES = {'stock': ('6.12-stock', REPORTING, False), 'off': ('6.12', REPORTING, False),
         'idle': ('6.12', DEVICE, False), 'changed': ('6.12', DEVICE, True)}
SMOKE_SIDES = ('stock', 'changed')
GUEST_MIB = 512
COUNTED = ('anonymous 4k', 'anonymous thp', 'file 4k')
TIMED = ('anonymous 4k processes', 'anonymous 4k threads', 'anonymous thp processes',
         'anonymous thp threads', 'file 4k processes', 'file 4k threads')
ICOUNT = ['-icount', 'shift=0,sleep=on']
CHANGE_S = 0.1
# Around the kernel's own 2 s: the passes stay as rare.
CHANGES_MS = (1900, 2100)
NANOSECOND_PER_INSTRUCTION = 1


@contextlib.contextmanager
def changing(guest, wanted):
    """The host changes the delay ten times a second meanwhile."""
    ended = threading.Event()

    def change():
        number = 0
        while not ended.wait(CHANGE_S):
            number += 1
            guest.more_qmp[0].command('balloon-set-report-delay',
                                      delay_ms=CHANGES_MS[number % 2])
    thread = threading.Thread(target=change, daemon=True)
    if wanted:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        if wanted:
            thread.join()


def faults(guest, words):
    """(faults, microseconds of the guest's clock)"""
    text = guest.run(f'faults {words}')[1]
    return tuple(map(int, re.search(r'faults (\d+), took (\d+) us', text).groups()))


class Kind:
    """A guest of each side, with so many vCPUs, counted or timed."""

    def __init__(self, bench, vcpus, counted):
        self.bench, self.vcpus, self.counted = bench, vcpus, counted
        self.guests = {}
        try:
            for side, (kernel, device, _) in SIDES.items():
                if bench.smoke:
                    if side not in SMOKE_SIDES:
                        continue
                    kernel = kernel.removesuffix('-stock')
                self.guests[side] = Guest(series=kernel, memory_mib=GUEST_MIB, cpus=vcpus,
                                          device=device, monitors=2,
                                          options=ICOUNT if counted else [])
                self.guests[side].qmp.command('stop')
        except BaseException:
            self.close()
            raise

    def close(self):
        for guest in self.guests.values():
            guest.close()

    def round(self, number):
        """Every workload on every side, one after the other."""
        workloads = COUNTED if self.counted else TIMED
        for workload in workloads[::5] if self.bench.smoke else workloads:
            for side in turns(self.guests, number):
                guest = self.guests[side]
                guest.qmp.command('cont')
                with changing(guest, SIDES[side][2]):
                    self.measure(guest, number, side, workload)
                guest.qmp.command('stop')
                guest.check_console()

    def measure(self, guest, number, side, workload):
        how = {'round': number, 'side': side, 'workload': workload}
        if self.counted:
            words = f'{workload} processes 1 times '
            faults(guest, words + '1')  # not counted: what is there only once
            count, took_us = faults(guest, words + str(self.bench.times))
            instructions = took_us * 1000 * NANOSECOND_PER_INSTRUCTION / count
            self.bench.add(guest, **how, measure='instructions', instructions_rate=instructions,
                           faults_rate='')
        else:
            count, took_us = faults(guest, f'{workload} {self.vcpus} ms {self.bench.ms}')
            self.bench.add(guest, **how, measure='wall', instructions_rate='',
                           faults_rate=count / took_us * 1e6)


def sides(rows):
    """Those that are held against stock."""
    return [side for side in SIDES if side != 'stock' and any(r['side'] == side for r in rows)]


def hot_path(bench):
    """page_reporting_notify_free() is inlined into mm/page_alloc.o: lines that differ."""
    for series in ('6.12', '7.3'):
        if (BUILD / f'guest/{series}.absent').exists():
            continue
        ours = code(f'linux-{series}', series, 'mm/page_alloc.o')
        stock = code(f'linux-{series}-stock', f'{series}-stock', 'mm/page_alloc.o')
        assert any('__page_reporting_notify' in line for line in ours), 'the object has no hot path'
        different = sum(tag != 'equal' and max(b - a, d - c) for tag, a, b, c, d in
                        difflib.SequenceMatcher(None, stock, ours, False).get_opcodes())
        bench.add(table='hotpath', kernel=series, series=series, accelerator='disassembly',
                  lines_count=len(stock), different_count=different)


def summary(bench):
    """The ratio to stock of each, printed."""
    for measure, field in (('instructions', 'instructions_rate'), ('wall', 'faults_rate')):
        rows = [row for row in bench.rows if row['measure'] == measure]
        for workload in dict.fromkeys(row['workload'] for row in rows):
            for side in sides(rows):
                middle, low, high = spread(ratios(
                    [row for row in rows if row['workload'] == workload], field, side, 'stock',
                    ('round', 'vcpus')))
                bench.say(f'{measure} of {workload}, {side} / stock: median {middle:.4f}, '
                          f'{low:.4f} to {high:.4f}')


def plot(bench):
    """Instructions a fault, each side to stock, with the range over the rounds."""
    rows = [row for row in bench.rows if row['measure'] == 'instructions']
    data = {}
    workloads = list(dict.fromkeys(row['workload'] for row in rows))
    for at, side in enumerate(sides(rows)):
        data[side] = []
        for number, workload in enumerate(workloads):
            middle, low, high = spread(ratios(
                [row for row in rows if row['workload'] == workload], 'instructions_rate', side,
                'stock'))
            data[side].append((number + (at - 1) * 0.2, *(100 * (value - 1)
                                                         for value in (middle, low, high))))
    tics = ', '.join(f'"{workload}" {number}' for number, workload in enumerate(workloads))
    lines = ', \\\n'.join(f'${side} using 1:2:3:4 with yerrorbars pt 7 lw 2 title "{side}"'
                          for side in data)
    bench.plot('instructions', f'''
set title "Guest instructions of a page fault, patched kernel against stock\\n{where(rows)}, icount"
set ylabel "more than stock, percent (median, range)"
set xrange [-0.5:{len(workloads) - 0.5}]
set xtics ({tics})
set key top right
plot 0 with lines dt 2 lc rgb "#888888" notitle, 0.1 with lines dt 3 lc rgb "#cc0000" title "0.1 %", \\
     {lines}
''', data)


def main():
    bench = Bench('overhead', __doc__, rounds=(4, 1), ms=(600, 50), times=(30, 1), vcpus=(2, 2))
    if not bench.smoke:
        hot_path(bench)
    kinds = ((1, True), (1, False), (bench.vcpus, False))
    for vcpus, counted in kinds[::2] if bench.smoke else kinds:
        kind = Kind(bench, vcpus, counted)
        try:
            for number in range(bench.rounds):
                kind.round(number)
        finally:
            kind.close()
    summary(bench)
    bench.save()
    plot(bench)


if __name__ == '__main__':
    main()
