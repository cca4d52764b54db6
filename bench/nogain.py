#!/usr/bin/python3
"""Where does the delay not matter? Short programs that allocate little, as in a build.

usage: nogain.py [--smoke] [--rounds N] [--ms N]    make bench-nogain builds what it needs

The program `smalljobs` in a guest of two vCPUs: jobs a second with reporting off and at
several delays, with blocks of order 9 reported (2 MiB, the standard) and with order
0 (every page, page_reporting.page_reporting_order=0). All sides in turn.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import re

from record import Bench, ratios, spread, turns, where
from guest import BALLOON, DEVICE, Guest
from watch import since, usage

DELAYS_MS = (10000, 2000, 100, 0)
OFF = 'off'
SIDES = (OFF, *(f'order-{order}-{ms}' for order in (9, 0) for ms in DELAYS_MS))
SMOKE_SIDES = (OFF, 'order-9-100', 'order-0-100')
GUEST_MIB = 768
# Not counted: the first jobs fill /tmp and the free lists.
WARM_MS = 1000


def boot(which):
    """The guest of sides of that name's beginning."""
    if which == OFF:
        return warm(Guest(memory_mib=GUEST_MIB, device=BALLOON))
    order = which.removeprefix('order-')
    # Order 9 is the kernel's own choice.
    guest = Guest(memory_mib=GUEST_MIB, device=DEVICE,
                  append='' if order == '9' else f'page_reporting.page_reporting_order={order}')
    seen = guest.read('/sys/module/page_reporting/parameters/page_reporting_order')
    assert seen == order, f'order {seen}'
    return warm(guest)


def warm(guest):
    """All of its memory was the host's once: the first touch is no side's cost."""
    guest.hold(GUEST_MIB * 3 // 4)
    guest.let_go()
    return guest


def measure(bench, guests, number, side):
    which, _, delay_ms = side.rpartition('-') if side != OFF else (OFF, '', '')
    guest = guests[which]
    guest.qmp.command('cont')
    if delay_ms:
        guest.set_delay(int(delay_ms))
    guest.run(f'smalljobs {max(bench.ms * WARM_MS // 4000, 50)}')
    before = usage(guest.process.pid)
    reports = guest.delay()['reports']
    text = guest.run(f'smalljobs {bench.ms}')[1]
    jobs, took_us = map(int, re.search(r'jobs (\d+), took (\d+) us', text).groups())
    cpu_s, faults = since(guest.process.pid, before)
    bench.add(guest, round=number, side=side, order=which.removeprefix('order-'),
              delay_ms=delay_ms, jobs_rate=jobs / took_us * 1e6, qemu_cpu_s=cpu_s,
              host_faults_count=faults, reports_count=guest.delay()['reports'] - reports)
    guest.qmp.command('stop')
    guest.check_console()


def plot(bench):
    """Jobs to those with reporting off, a line for each order."""
    data = {}
    for order in ('9', '0'):
        sides = dict.fromkeys((int(row['delay_ms']), row['side']) for row in bench.rows
                              if row['order'] == order)
        data[f'order{order}'] = [
            (max(delay_ms, 1), *(100 * value for value in
                                 spread(ratios(bench.rows, 'jobs_rate', side, OFF))))
            for delay_ms, side in sorted(sides)]
    bench.plot('jobs', f'''
set title "Short programs that allocate little: the delay at order 9 and at order 0\\n{where(bench.rows)}"
set xlabel "report delay, ms (0 drawn at 1)"
set ylabel "jobs, percent of those with reporting off (median, range)"
set logscale x
set xrange [0.5:20000]
set yrange [0:*]
set key bottom right
plot 100 with lines dt 2 lc rgb "#888888" title "reporting off", \\
     $order9 with yerrorlines lw 2 title "order 9", $order0 with yerrorlines lw 2 title "order 0"
''', data)


def main():
    bench = Bench('nogain', __doc__, rounds=(5, 1), ms=(3000, 300))
    sides = SMOKE_SIDES if bench.smoke else SIDES
    guests = {}
    try:
        for which in (OFF, 'order-9', 'order-0'):
            guests[which] = boot(which)
            guests[which].qmp.command('stop')
        for number in range(bench.rounds):
            for side in turns(sides, number):
                measure(bench, guests, number, side)
    finally:
        for guest in guests.values():
            guest.close()
    for side in sides[1:]:
        middle, low, high = spread(ratios(bench.rows, 'jobs_rate', side, OFF))
        bench.say(f'{side} / {OFF}: median {middle:.3f}, {low:.3f} to {high:.3f}')
    bench.save()
    plot(bench)


if __name__ == '__main__':
    main()
