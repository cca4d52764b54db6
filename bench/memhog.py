#!/usr/bin/python3
"""A process that fills the guest and ends, again and again: what has the host after each?

usage: memhog.py [--smoke] [--rounds N] [--mib N] [--vcpus N]    make bench-memhog

One guest a side, the others stopped meanwhile; MIB of MIB + 512 are filled. The
memory of the QEMU process and what the host has available are read right after the
process's end, and 1, 3 and 6 s later. Sides: a stock kernel, ours at fixed delays,
ours relaxed (60 s) and asked for 0 at the end of each process, and ours with two
NUMA nodes, fixed at 250 ms. REPORT_DELAY_QEMU_OPTIONS='-device vfio-pci,...' adds a
side with an assigned device, which nothing should come back from.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import collections
import os
import shlex
import time

from record import Bench, median, turns, where
from guest import DEVICE, REPORTING, Guest, available_mib
from watch import MIB

Side = collections.namedtuple('Side', 'name series delay_ms asked')
SIDES = (Side('stock', '6.12-stock', None, False), Side('fixed-2000', '6.12', 2000, False),
         Side('fixed-250', '6.12', 250, False), Side('fixed-0', '6.12', 0, False),
         Side('steered', '6.12', 60000, True), Side('two-nodes', '6.12-numa', 250, False))
ASSIGNED = Side('assigned', '6.12', 250, False)
ASSIGN = shlex.split(os.environ.get('REPORT_DELAY_QEMU_OPTIONS', ''))
SMOKE_SIDES = ('fixed-250', 'steered')
# Seconds after the end of the process.
LOOKS_S = (0, 1, 3, 6)
# What the guest has besides: itself, and free memory to fill from.
REST_MIB = 512


def nodes(mib, vcpus):
    """QEMU's options for two nodes with half of the vCPUs each."""
    half = (mib + REST_MIB) // 2
    options = ['-smp', f'{vcpus},sockets=2']
    for node in (0, 1):
        first, last = node * vcpus // 2, (node + 1) * vcpus // 2 - 1
        options += ['-object', f'memory-backend-ram,id=node{node},size={half}M',
                    '-numa', f'node,nodeid={node},memdev=node{node},cpus={first}-{last}']
    return options


def boot(bench, side):
    """The side's guest, at its delay."""
    options = {'two-nodes': nodes(bench.mib, bench.vcpus), 'assigned': ASSIGN}.get(side.name, [])
    device = DEVICE if side.delay_ms is not None else REPORTING
    guest = Guest(series=side.series, memory_mib=bench.mib + REST_MIB, cpus=bench.vcpus,
                  device=device, options=options)
    if side.name == 'two-nodes':
        online = guest.read('/sys/devices/system/node/online')
        assert online == '0-1', f'the guest has the nodes {online}'
    if side.delay_ms is not None:
        guest.settle()
        guest.set_delay(side.delay_ms)
    return guest


def once(bench, guest, number, side):
    """Fill, end, look."""
    base = guest.rss() / MIB
    start = time.monotonic()
    guest.hold(bench.mib)
    fill_s = time.monotonic() - start
    used = guest.rss() / MIB
    guest.let_go()
    start = time.monotonic()
    if side.asked:
        guest.set_delay(0, wait=False)
    seen = {}
    for look_s in LOOKS_S:
        time.sleep(max(start + look_s - time.monotonic(), 0))
        seen[f'after_{look_s}s_mib'] = guest.rss() / MIB
    if side.asked:
        guest.set_delay(side.delay_ms)
    bench.add(guest, round=number, side=side.name, fill_s=fill_s, before_mib=base, used_mib=used,
              **seen, host_available_mib=available_mib())
    bench.say(f'{number} {side.name}: filled in {fill_s:.1f} s, {used:.0f} MiB, then ' +
              ', '.join(f'{mib:.0f}' for mib in seen.values()))


def plot(bench):
    """Each cycle of each side: what the host still holds after the last look."""
    rows = bench.rows
    names = list(dict.fromkeys(row['side'] for row in rows))
    data = {f's{at}': [(row['round'], row[f'after_{LOOKS_S[-1]}s_mib']) for row in rows
                       if row['side'] == name] for at, name in enumerate(names)}
    lines = ', \\\n'.join(f'$s{at} with linespoints lw 2 title "{name}"'
                          for at, name in enumerate(names))
    bench.plot('held', f'''
set title "{bench.mib} MiB filled and freed: what QEMU holds {LOOKS_S[-1]} s later\\n{where(rows)}"
set xlabel "cycle"
set ylabel "MiB"
set xtics 1
set xrange [-0.5:{bench.rounds - 0.5}]
set yrange [0:*]
set key outside right
plot {lines}
''', data)


def main():
    bench = Bench('memhog', __doc__, rounds=(3, 1), mib=(3072, 256), vcpus=(2, 2))
    guests = {}
    try:
        for side in (*SIDES, ASSIGNED) if ASSIGN else SIDES:
            if not bench.smoke or side.name in SMOKE_SIDES:
                guests[side] = boot(bench, side)
                guests[side].qmp.command('stop')
        for number in range(bench.rounds):
            for side in turns(guests, number):
                guests[side].qmp.command('cont')
                once(bench, guests[side], number, side)
                guests[side].qmp.command('stop')
                guests[side].check_console()
    finally:
        for guest in guests.values():
            guest.close()
    for name in dict.fromkeys(row['side'] for row in bench.rows):
        rows = [row for row in bench.rows if row['side'] == name]
        bench.say(f'{name}: median of what is held after {LOOKS_S[-1]} s: '
                  f'{median(row[f"after_{LOOKS_S[-1]}s_mib"] for row in rows):.0f} MiB')
    bench.save()
    plot(bench)


if __name__ == '__main__':
    main()
