#!/usr/bin/python3
"""How soon is the memory of a process that has ended the host's again?

usage: reclaim.py [--smoke] [--rounds N] [--mib N]    make bench-reclaim builds all sides first

A guest of MIB + 3 GiB; a process in it takes MIB and ends. Stock kernels at a
fixed delay: the time counts from the process's end. Ours waits at a delay of
60 s, holds all of it, and is asked for a short one: the time counts from the
command. The limit: a program on this host that discards as much in pieces of
2 MiB, and one that ends. All sides in turn, each in each round.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import collections
import signal
import subprocess
import time

from record import Bench, median, ratios, turns, where
from guest import BUILD, DEVICE, REPORTING, Guest
from watch import Curve

Side = collections.namedtuple('Side', 'name series device own_ms asked_ms')
# own_ms: the guest's own delay, by the parameter (None: as built, 2 s);
# asked_ms: what the host asks for at the moment of need.
SIDES = [Side('stock-6.12', '6.12-stock', REPORTING, None, None)] + [
    Side(f'stock-7.3-{ms}', '7.3-stock', REPORTING, ms, None) for ms in (2000, 250, 100, 0)] + [
    Side(f'ours-{ms}', '6.12', DEVICE, None, ms) for ms in (0, 50, 100, 500)] + [
    # QEMU looks at a report on the vCPU's thread, not after its main loop has woken up.
    Side('ours-0-no-ioeventfd', '6.12', DEVICE + ',ioeventfd=off', None, 0)]
SMOKE_SIDES = ('stock-6.12', 'ours-0', 'ours-50')
LIMITS = ('limit-discard', 'limit-exit')
PARTS = {'first_s': 0, 'half_s': 0.5, 'most_s': 0.97}
RELAXED_MS = 60000
PARAMETER = '/sys/module/page_reporting/parameters/page_reporting_delay_ms'
# The first byte: more than a process's memory moves by itself.
FIRST_MIB = 8
# A smoke run has only the patched kernel, and no time for a pass of 2 s.
SMOKE_MS = 50
# Of so little memory, what QEMU itself takes meanwhile is more than 3 %.
SMOKE_PART = 0.7
# A pass takes a sixteenth: at 2 s, 97 % take 25 s.
BACK_SECONDS = 60
# Of the picture; on the left, the limit needs room.
EDGES_S = (0.002, 60)


def sides(bench):
    return [side for side in SIDES if not bench.smoke or side.name in SMOKE_SIDES]


class Limit:
    """The program on the host."""

    def __init__(self, mib):
        self.process = subprocess.Popen(
            ['setpriv', '--pdeathsig', 'KILL', BUILD / 'bench/discard', str(mib)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == f'holding {mib}\n'

    def measure(self, name):
        """Seconds."""
        try:
            if name == 'limit-discard':
                self.process.send_signal(signal.SIGUSR1)
                return int(self.process.stdout.readline().split()[2]) / 1e6
            start = time.monotonic()
            self.process.kill()
            self.process.wait()
            return time.monotonic() - start
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()


def prepare(guest, side, smoke):
    """Bring a guest to the side's delay, with nothing left to report."""
    if side.asked_ms is not None:
        guest.settle()
        guest.set_delay(RELAXED_MS)
        return
    own_ms = SMOKE_MS if smoke else side.own_ms
    if own_ms is not None:
        guest.run(f'echo {own_ms} >{PARAMETER}')


def measure(bench, guest, side):
    """({part: seconds}, the curve) of one process's memory."""
    prepare(guest, side, bench.smoke)
    base = guest.rss() / 2**20
    guest.hold(bench.mib)
    with Curve(guest.process.pid) as curve:
        time.sleep(1)  # as it runs on: the reports of what was free before are done
        peak = curve.last()
        start = time.monotonic()
        guest.let_go()
        gone = time.monotonic() - start
        if side.asked_ms is not None:
            time.sleep(1)  # the host is not short yet, and the memory stays
            kept = curve.last()
            assert peak - kept < 0.1 * (peak - base), f'{peak - kept:.0f} MiB back unasked'
            peak = kept
            start = time.monotonic()
            guest.set_delay(side.asked_ms, wait=False)
        parts = {field: part or FIRST_MIB / (peak - base) for field, part in PARTS.items()}
        if bench.smoke:
            parts['most_s'] = SMOKE_PART
        took = curve.back(start, base, peak, BACK_SECONDS, parts.values())
    return {field: took[part] for field, part in parts.items()} | {'process_gone_s': gone}, \
        curve.thinned(start, (peak - base) / 200)


def run(bench, guests):
    """All rounds."""
    for number in range(bench.rounds):
        for side in turns([*sides(bench), *LIMITS], number):
            if side in LIMITS:
                took = Limit(bench.mib).measure(side)
                bench.add(accelerator='host', round=number, side=side, delay_ms='',
                          mib=bench.mib, most_s=took)
                bench.say(f'{number} {side}: {took:.3f} s')
                continue
            guest = guests[side.series, side.device]
            guest.qmp.command('cont')
            took, curve = measure(bench, guest, side)
            guest.qmp.command('stop')
            delay_ms = 2000 if side.own_ms is None else side.own_ms
            bench.add(guest, round=number, side=side.name, mib=bench.mib,
                      delay_ms=delay_ms if side.asked_ms is None else side.asked_ms, **took)
            bench.say(f'{number} {side.name}: ' +
                      ', '.join(f'{field} {value}' if value is None else f'{field} {value:.3f}'
                                for field, value in took.items()))
            if number == 0:
                for at, mib in curve:
                    bench.add(guest, 'curve', side=side.name, at_s=at, host_mib=mib)


def plot(bench):
    """The curves, on a logarithm of time: they are a factor of 500 apart."""
    rows = bench.tables['curve']
    names = list(dict.fromkeys(row['side'] for row in rows))
    data = {}
    for n, name in enumerate(names):
        points = [(row['at_s'], row['host_mib']) for row in rows if row['side'] == name]
        # From edge to edge: what was held at the start, what was left at the end.
        held = [mib for at, mib in points if at <= EDGES_S[0]] or [points[0][1]]
        data[f'c{n}'] = [(EDGES_S[0], held[-1]), *(p for p in points if p[0] > EDGES_S[0]),
                         (EDGES_S[1], points[-1][1])]
    limit = median(row['most_s'] for row in bench.rows if row['side'] == 'limit-discard')
    lines = ', \\\n'.join(
        f'$c{n} using 1:2 with lines lw 2 {"dt 2 " * name.startswith("stock")}title "{name}"'
        for n, name in enumerate(names))
    bench.plot('curve', f'''
set title "{bench.mib} MiB of a process that ended: memory of the QEMU process\\n{where(rows)}"
set xlabel "seconds from the end of the process (stock), from the host's command (ours)"
set ylabel "MiB"
set logscale x
set xrange [{EDGES_S[0]}:{EDGES_S[1]}]
set yrange [0:*]
set key outside right
set arrow from {limit}, graph 0 to {limit}, graph 1 nohead dt 3 lw 2
set label "host alone" at {limit}, graph 0.03 offset 0.5,0
plot {lines}
''', data, (960, 480))


def main():
    bench = Bench('reclaim', __doc__, rounds=(3, 1), mib=(10240, 256))
    guests = {}
    try:
        for series, device in dict.fromkeys((side.series, side.device) for side in sides(bench)):
            guests[series, device] = Guest(
                series=series.removesuffix('-stock') if bench.smoke else series, device=device,
                memory_mib=bench.mib + (416 if bench.smoke else 3072))
        for guest in guests.values():
            # What QEMU and the kernel take for themselves, the first time, is no backlog.
            guest.use_and_free(bench.mib // 10)
        for guest in guests.values():
            if not bench.smoke:
                guest.wait_quiet(240)
            guest.qmp.command('stop')  # an idle guest takes CPU time, too
        run(bench, guests)
        for guest in guests.values():
            guest.check_console()
    finally:
        for guest in guests.values():
            guest.close()
    for base in ('stock-6.12', 'limit-discard'):
        part = ratios(bench.rows, 'most_s', 'ours-0', base)
        bench.say(f'ours-0 / {base}, 97 % back: median {median(part):.4f}')
    bench.save()
    plot(bench)


if __name__ == '__main__':
    main()
