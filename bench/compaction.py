#!/usr/bin/python3
"""What does compaction cost where it cannot help, and does it still help where it can?

usage: compaction.py [--smoke] [--rounds N]    make bench-compaction builds what it needs

Linux 6.12 without our series, 6.12 with it, and 7.3, each booted anew in every round:

  pins   512 MiB of long-term pins that want node 0, of which only CMA is free, io_uring
         buffers in the place of an assigned device: their time, how often direct compaction
         was tried, what it and reclaim looked at
  touch  movable huge pages in fragmented memory without CMA: how many there are to be had
  pin    unmovable ones

Later releases of 6.12 try compaction in vain as earlier ones do, but no longer go on to
reclaim the node of what it has not got: the pins are taken by 6.12 as it was before, too,
without and with the series (guest-kernel/config/node-reclaim.patch).

SPDX-License-Identifier: GPL-2.0-or-later
"""
import contextlib
import tempfile

from record import Bench, ratios, spread, turns, where
from guest import Guest
from test_compaction import (ALL_MIB, ASKED_MIB, FRAGMENTED_MIB, SMALL, Nodes, fragmented, pin,
                             un_pin)

STOCK, BEFORE = 'stock-6.12', 'stock-6.12-before'
SIDES = {STOCK: '6.12-stock-numa', 'ours-6.12': '6.12-numa', '7.3': '7.3-numa',
         BEFORE: '6.12-stock-numa-node-reclaim', 'ours-6.12-before': '6.12-numa-node-reclaim'}
SMOKE_SIDES = {'ours-6.12': '6.12-numa'}
# Each side's own control, and what is said of it.
BASES = {'ours-6.12': STOCK, '7.3': STOCK, 'ours-6.12-before': BEFORE}
RATIOS = (('pins', 'took_us'), ('touch', 'huge_count'), ('pin', 'huge_count'),
          ('touch', 'compact_success_count'), ('pin', 'compact_success_count'))
COUNTERS = ('compact_stall', 'compact_success', 'compact_fail', 'compact_migrate_scanned',
            'compact_free_scanned', 'pgmigrate_success', 'pgscan_direct')


@contextlib.contextmanager
def swap():
    """QEMU options for a disk: without one there is nothing that reclaim would look at."""
    with tempfile.NamedTemporaryFile(dir='/var/tmp') as disk:
        disk.truncate(2**30)
        yield ['-drive', f'if=virtio,format=raw,cache=unsafe,file={disk.name}']


def add(bench, guest, number, side, workload, said):
    asked = said['pins' if workload == 'pins' else 'thp']
    bench.add(guest, round=number, side=side, workload=workload, pieces_count=asked['pieces'],
              huge_count=asked['huge'], took_us=asked['total-us'], p50_us=asked['p50-us'],
              p99_us=asked['p99-us'],
              **{f'{name}_count': said['vmstat'][name] for name in COUNTERS})


def measure(bench, number, side, kernel):
    with swap() as disk, Nodes(SMALL, kernel, disk) as guest:
        guest.run('mkswap /dev/vda && swapon /dev/vda')
        add(bench, guest, number, side, 'pins', pin(guest, SMALL))
        un_pin(guest)
    for how in () if side.endswith('before') else ('touch', 'pin'):
        with Guest(series=kernel, memory_mib=FRAGMENTED_MIB, device=None) as guest:
            # The same pages are free in this round of every kernel.
            add(bench, guest, number, side, how,
                fragmented(guest, how, number + 1, ASKED_MIB if bench.smoke else ALL_MIB))


def plot(bench):
    """Time of the pins by how often compaction was tried, a point for each boot."""
    sides = dict.fromkeys(row['side'] for row in bench.rows)
    data = {f'side{at}': [(row['compact_stall_count'], row['took_us'] / row['pieces_count'] / 1000)
                          for row in bench.rows
                          if row['side'] == side and row['workload'] == 'pins']
            for at, side in enumerate(sides)}
    bench.plot('pins', f'''
set title "Long-term pins of huge pages that want a node of which only CMA is free\\n{where(bench.rows)}"
set xlabel "direct compactions that were tried"
set ylabel "a pin of 2 MiB, ms (mean)"
set xrange [-10:*]
set logscale y
set key top left
plot ''' + ', '.join(f'$side{at} using 1:2 with points pt {5 + 2 * at} ps 1 title "{side}"'
                      for at, side in enumerate(sides)), data)


def main():
    bench = Bench('compaction', __doc__, rounds=(3, 1))
    sides = SMOKE_SIDES if bench.smoke else SIDES
    for number in range(bench.rounds):
        for side in turns(sides, number):
            measure(bench, number, side, sides[side])
            bench.say(f'{number} {side}: ' + ', '.join(
                f'{row["workload"]} {row["huge_count"]} huge, {row["took_us"] / 1000:.0f} ms, '
                f'{row["compact_stall_count"]} compactions' for row in bench.rows
                if row['side'] == side and row['round'] == number))
    for side, base in BASES.items():
        for workload, field in RATIOS:
            part = ratios([row for row in bench.rows if row['workload'] == workload],
                          field, side, base)
            if part:
                middle, low, high = spread(part)
                bench.say(f'{workload}, {field}, {side} / {base}: median {middle:.3f}, '
                          f'{low:.3f} to {high:.3f}')
    bench.save()
    plot(bench)


if __name__ == '__main__':
    main()
