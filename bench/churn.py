#!/usr/bin/python3
"""What does a delay cost a guest that uses memory again and again?

usage: churn.py [--smoke] [--rounds N] [--window SECONDS]    make bench-churn builds what it needs

A guest of one vCPU takes and frees 512 MiB every 0.4 s, or as fast as it goes;
then two guests do. Reporting off, fixed delays (the guest's own), and
balloon-steer on a host that has memory and on one that is short of it. How
soon 1 GiB comes back under each is measured besides. All sides in turn.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import re
import tempfile
import time
from pathlib import Path

from record import Bench, median, ratios, turns, where
from guest import BALLOON, DEVICE, Guest
from steered import Steer
from watch import MIB, Curve, since, usage

OFF = 'off'
FIXED_MS = (10000, 2000, 500, 100, 0)
CALM, SHORT = 'steer-calm', 'steer-short'
SIDES = (OFF, *(f'fixed-{ms}' for ms in FIXED_MS), CALM, SHORT)
# A pass takes a sixteenth: 10 s would take 160 s, for one more point of the line.
BACK_SIDES = ('fixed-2000', 'fixed-500', 'fixed-100', 'fixed-0', CALM)
SMOKE_SIDES = (OFF, 'fixed-100', CALM, SHORT)
GUEST_MIB = 1536
PERIOD_MS = 400
SYSCTL = '/proc/sys/vm/page_reporting_delay_ms'
TRIGGER = '/proc/sys/vm/page_reporting_trigger'
# At 2 s, a sixteenth of it a pass, 97 % take 25 s.
BACK_SECONDS = 60
# What CALM and URGENT of balloon-steer's standard values are.
IS_CALM, IS_SHORT = (lambda ms: ms >= 10000), (lambda ms: ms == 50)


class Pair:
    """Two guests that report and two that do not, and the daemon for the former."""

    def __init__(self, folder):
        self.guests = {True: [], False: []}
        self.steer = None
        (folder / 'qmp').mkdir()
        try:
            for reports in (True, False):
                for name in ('a', 'b'):
                    options = (['-qmp', f'unix:{folder}/qmp/{name},server=on,wait=off']
                               if reports else [])
                    self.guests[reports].append(Guest(
                        memory_mib=GUEST_MIB, cpus=1, options=options,
                        device=DEVICE if reports else BALLOON))
            for guest in self.guests[True] + self.guests[False]:
                # All of it was the host's once: the first touch is no side's cost.
                guest.hold(GUEST_MIB * 3 // 4)
                guest.let_go()
            for guest in self.guests[True]:
                guest.settle()
                guest.withdraw()
            self.steer = Steer(folder, [guest.process.pid for guest in self.guests[True]])
        except BaseException:
            self.close()
            raise

    def close(self):
        if self.steer:
            self.steer.stop()
        for guest in self.guests[True] + self.guests[False]:
            guest.close()

    def of(self, side):
        return self.guests[side != OFF]

    def begin(self, side):
        """Bring the guests of a side to its delay, the others to a halt."""
        for guest in self.guests[side == OFF]:
            guest.qmp.command('stop')
        guests = self.of(side)
        for guest in guests:
            guest.qmp.command('cont')
        if side.startswith('fixed-'):
            for guest in guests:
                guest.run(f'echo {side.removeprefix("fixed-")} >{SYSCTL}')
        elif side != OFF:
            for guest in guests:
                guest.run(f'echo 2000 >{SYSCTL}')
            self.steer.calm()
            self.steer.start()
            self.steer.wait(guests, IS_CALM)
        return guests

    def end(self):
        self.steer.stop()
        for guest in self.guests[True] + self.guests[False]:
            guest.check_console()


def churn(guests, mib, seconds):
    """What each guest's program says, {field: number}."""
    command = f'churn {mib} {PERIOD_MS} >/tmp/churn & sleep {{}}; kill $!; wait; cat /tmp/churn'
    # Not counted: the first cycles take what the side before has left.
    for guest, number in [(guest, guest.start(command.format(1))) for guest in guests]:
        guest.finish(number)
    before = [usage(guest.process.pid) for guest in guests]
    numbers = [guest.start(command.format(seconds)) for guest in guests]
    seen = []
    for guest, number, used in zip(guests, numbers, before):
        text = guest.finish(number, seconds + 120)[1]
        cycles, mean_us, p99_us, whole_ms = map(int, re.search(
            r'cycles (\d+), mean (\d+) us, p99 (\d+) us, whole (\d+) ms', text).groups())
        cpu_s, faults = since(guest.process.pid, used)
        seen.append({'cycles_count': cycles, 'cycles_rate': cycles / max(whole_ms, 1) * 1000,
                     'mean_ms': mean_us / 1000, 'p99_ms': p99_us / 1000, 'qemu_cpu_s': cpu_s,
                     'host_faults_count': faults})
    return seen


def drain(guest):
    """Let the guest report what is free, without a change of its delay; MiB that are left."""
    guest.run(f'echo 1 >{TRIGGER}')
    seen = [guest.rss() / MIB]
    while len(seen) < 10 or seen[-10] - seen[-1] > 1:
        time.sleep(0.05)
        seen.append(guest.rss() / MIB)
    return seen[-1]


def back(guest, mib, part, need):
    """Seconds from need() or from the process's end until a part of `mib` is back."""
    base = drain(guest)
    guest.hold(mib)
    with Curve(guest.process.pid) as curve:
        time.sleep(0.2)  # for the curve's first points
        peak = curve.last()
        start = time.monotonic()
        guest.let_go()
        if need:
            time.sleep(1)  # the host is not short yet, and the memory stays
            start = time.monotonic()
            need()
        return curve.back(start, base, peak, BACK_SECONDS, [part])[part]


def measure(bench, pair, number, side):
    """One side, all three figures."""
    guests = pair.begin(side)
    for alone in (True, False):
        at_work = guests[:1] if alone else guests
        if side == SHORT and alone:
            # Short once both have something to give: what gives nothing is left alone.
            for guest in guests:
                guest.run(f'memhog {bench.mib} >/dev/null & sleep 1; kill $!; wait')
            pair.steer.short()
            pair.steer.wait(guests, IS_SHORT)
        for guest, seen in zip(at_work, churn(at_work, bench.mib, bench.window)):
            bench.add(guest, round=number, side=side, guests_count=len(at_work),
                      which='ab'[guests.index(guest)], **seen)
            bench.say(f'{number} {side}, {len(at_work)}: ' +
                      ', '.join(f'{name} {value:.4g}' for name, value in seen.items()))
    if side in BACK_SIDES and number < 2:
        # Of so little memory, what QEMU itself takes meanwhile is more than 3 %.
        part = 0.7 if bench.smoke else 0.97
        took = back(guests[0], bench.back, part, pair.steer.short if side == CALM else None)
        bench.add(guests[0], 'back', round=number, side=side, mib=bench.back, most_s=took)
        bench.say(f'{number} {side}: 97 % of {bench.back} MiB back after {took} s')
    pair.end()


def lost(rows, side):
    """Percent of the cycles of reporting off that a side does not reach: of all rounds."""
    alone = [row for row in rows if row['guests_count'] == 1]
    return 100 * (1 - median(ratios(alone, 'cycles_rate', side, OFF)))


def plot(bench):
    """Reclaim time against cost: the fixed delays are a line, steering is a point."""
    back_rows = [row for row in bench.tables['back'] if row['most_s'] != '']
    took = {side: median(row['most_s'] for row in back_rows if row['side'] == side)
            for side in dict.fromkeys(row['side'] for row in back_rows)}
    line = sorted((seconds, lost(bench.rows, side), f'"{side.removeprefix("fixed-")} ms"')
                  for side, seconds in took.items() if side != CALM)
    bench.plot('trade', f'''
set title "Memory back soon, and what that costs a guest that churns\\n{where(bench.rows)}"
set xlabel "seconds to 97 % of {bench.back} MiB back on the host"
set ylabel "cycles lost to reporting, percent"
set logscale x
set xrange [0.005:100]
set offsets graph 0, 0, 0.08, 0.03
set key top right
plot 0 with lines dt 2 lc rgb "#888888" title "reporting off: never", \\
     $fixed using 1:2 with linespoints pt 7 lw 2 title "fixed delays", \\
     $fixed using 1:2:3 with labels offset 0,1 notitle, \\
     $steer using 1:2 with points pt 9 ps 2 lc rgb "#cc0000" title "balloon-steer: calm cost, time when short"
''', {'fixed': line, 'steer': [(took[CALM], lost(bench.rows, CALM))]})


def main():
    bench = Bench('churn', __doc__, rounds=(3, 1), window=(6, 2), mib=(512, 64), back=(1024, 256))
    for number in range(bench.rounds):
        # New processes each round: what a process has of huge pages is its luck.
        with tempfile.TemporaryDirectory(prefix='churn-') as folder:
            pair = Pair(Path(folder))
            try:
                for side in turns(SMOKE_SIDES if bench.smoke else SIDES, number):
                    measure(bench, pair, number, side)
            finally:
                pair.close()
    alone = [row for row in bench.rows if row['guests_count'] == 1]
    for side in dict.fromkeys(row['side'] for row in alone):
        if side != OFF:
            bench.say(f'{side} / {OFF}, cycles: median '
                      f'{median(ratios(alone, "cycles_rate", side, OFF)):.3f}')
    bench.save()
    plot(bench)


if __name__ == '__main__':
    main()
