#!/usr/bin/python3
"""How long does a new delay take inside the guest? By the guest's own trace clock.

usage: guest_latency.py [--smoke] [--rounds N]    make bench-guest-latency builds the kernel first

Two times, of a guest that holds freed memory at a delay of 60 s and is asked
for 0: from the config interrupt (virtballoon_changed) to the written answer
(report_delay_func returns), and from the changed delay
(page_reporting_request_delay) to the first report
(virtballoon_free_page_report). Idle, and with a process that takes and frees
memory; in turn.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import re

from record import Bench, median, p99
from guest import Guest

HELD_MIB = 128
TRACING = '/sys/kernel/tracing'
PROBES = {'changed': 'p:{} virtballoon_changed', 'asked': 'p:{} page_reporting_request_delay',
          'report': 'p:{} virtballoon_free_page_report', 'applied': 'r:{} report_delay_func'}


def prepare(guest):
    guest.run(f'mkdir -p {TRACING}; mount -t tracefs tracefs {TRACING} 2>/dev/null || true')
    for name, probe in PROBES.items():
        guest.run(f'echo "{probe.format(name)}" >>{TRACING}/kprobe_events')
    guest.run(f'echo global >{TRACING}/trace_clock; echo 1 >{TRACING}/events/kprobes/enable')


def once(guest):
    """{what: microseconds} of one change from 60 s to 0."""
    guest.set_delay(60000)
    guest.hold(HELD_MIB)
    guest.let_go()
    guest.run(f'echo >{TRACING}/trace')
    guest.set_delay(0)
    # The pass may run a moment after the answer.
    for _ in range(50):
        text = guest.run(f'cat {TRACING}/trace')[1]
        if ': report:' in text:
            break
    stamps = {}
    for stamp, name in re.findall(r' (\d+\.\d+): (\w+): \(', text):
        stamps.setdefault(name, []).append(float(stamp) * 1e6)
    asked = stamps['asked'][0]
    return {'interrupt_to_applied_us': round(min(t for t in stamps['applied'] if t > asked)
                                             - stamps['changed'][0], 1),
            'changed_to_first_report_us': round(min(t for t in stamps['report'] if t > asked)
                                                - asked, 1)}


def main():
    bench = Bench('guest-latency', __doc__, rounds=(200, 3))
    with Guest(series='6.12-trace', memory_mib=1024) as guest:
        prepare(guest)
        for number in range(bench.rounds):
            for load in ('idle', 'busy'):
                if load == 'busy':
                    guest.run('churn 64 20 >/dev/null & echo $! >/tmp/churn')
                bench.add(guest, round=number, load=load, **once(guest))
                if load == 'busy':
                    guest.run('kill $(cat /tmp/churn)')
    for load in ('idle', 'busy'):
        for what in ('interrupt_to_applied_us', 'changed_to_first_report_us'):
            values = [row[what] for row in bench.rows if row['load'] == load]
            bench.say(f'{load}, {what.removesuffix("_us").replace("_", " ")}: median '
                      f'{median(values):.0f} us, p99 {p99(values):.0f} us')
    bench.save()


if __name__ == '__main__':
    main()
