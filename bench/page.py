#!/usr/bin/python3
"""docs/benchmarks.rst, from the newest CSV of each bench: every figure on it is computed here.

usage: page.py [--results FOLDER] [--output FILE] [--check]

--check writes nothing and fails if the page is not what the CSVs give.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse
import contextlib
import os
import sys
from pathlib import Path

from compaction import BASES
from record import COMMON, RESULTS, ROOT, median, p99, ratios, read, spread, where

PAGE = ROOT / 'docs/benchmarks.rst'
TARGETS = []    # (what was to be shown, what is, is it met), in the order of the sections

HEAD = '''.. SPDX-License-Identifier: GPL-2.0-or-later

.. Made by bench/page.py from bench/results; make bench measures anew.

Benchmarks
==========

Stock and ours side by side, in turn within one run. A ratio is that of two measurements of
one round; what stands for all rounds is the median, with the range in parentheses. Guests run
where it says TCG without hardware virtualization: times within a guest are long, ratios hold
better than they do. ``CPUs`` are the host's. *Stock* is Linux without our patches, on the same
QEMU with ``report-delay=off``. CSV and pictures are in ``bench/results``.

What was to be shown
--------------------

'''

ELSEWHERE = '''What this machine cannot show
-----------------------------

The measurements that came with free page reporting in 2019 had a guest of 16 vCPUs and 40 GB
on pinned NUMA nodes, will-it-scale on 1 to 16 of them, memhog in it again and again, and an
assigned device as control, whose guest reports nothing. The machine of the figures above is
smaller and has no device to assign. On a larger host::

    numactl --cpunodebind=0 --membind=0 bench/overhead.py --vcpus 16
    numactl --cpunodebind=0 --membind=0 bench/memhog.py --vcpus 16 --mib 36864
    REPORT_DELAY_QEMU_OPTIONS='-device vfio-pci,host=01:00.0' bench/memhog.py --mib 8192
    bench/reclaim.py --mib 32768 --rounds 5

The third adds the control as a side of its own, ``assigned``. Where the CPU can, guests run
under KVM by themselves; the rows and this page say which it was.
'''


class Absent(Exception):
    """A bench has not been run."""


def number(value, digits=3):
    """A figure with so many digits that count, without an exponent."""
    value = float(value)
    if value == 0:
        return '0'
    size = max(digits, len(str(int(abs(value)))))
    text = f'{value:.{size}g}'
    return f'{float(text):.8f}'.rstrip('0').rstrip('.') if 'e' in text else text


def ranged(values, digits=3, factor=1):
    return '{} ({} to {})'.format(*(number(factor * value, digits) for value in spread(values)))


def table(head, rows):
    """An RST list-table."""
    lines = ['.. list-table::', '   :header-rows: 1', '']
    for row in [head, *rows]:
        for at, cell in enumerate(row):
            lines.append(f'   {" " if at else "*"} - {cell}'.rstrip())
    return lines + ['']


class Results:
    """The folder of CSVs."""

    def __init__(self, folder, page):
        self.folder, self.page = folder, page

    def newest(self, name, ending='csv'):
        found = sorted(self.folder.glob(f'????-??-??-{name}.{ending}'))
        if not found:
            raise Absent
        return found[-1]

    def rows(self, name):
        rows = read(self.newest(name))
        if not rows or not set(COMMON) <= set(rows[0]):
            raise Absent  # of before the columns were agreed on
        return rows

    def picture(self, name, text):
        path = self.newest(name, 'svg')
        return [f'.. image:: {os.path.relpath(path, self.page.parent)}', f'   :alt: {text}', '']


def target(text, shown, met):
    TARGETS.append((text, shown, met))


def pick(rows, **fields):
    return [row for row in rows if all(row[field] == value for field, value in fields.items())]


def column(rows, field):
    return [float(row[field]) for row in rows if row[field]]


def names(rows, field='side'):
    return list(dict.fromkeys(row[field] for row in rows))


def environment(rows):
    dates = names(rows, 'date')
    return [f'*{where(rows)}; {dates[-1]}.*', '']


def reclaim(results):
    rows = results.rows('reclaim')
    ours, stock, limit = (column(pick(rows, side=side), 'most_s')
                          for side in ('ours-0', 'stock-6.12', 'limit-discard'))
    direct = column(pick(rows, side='ours-0-no-ioeventfd'), 'most_s')
    faster = ratios(rows, 'most_s', 'stock-6.12', 'ours-0')
    to_limit = ratios(rows, 'most_s', 'ours-0', 'limit-discard')
    mib = names(rows, 'mib')[0]
    target(f'{mib} MiB from a relaxed guest: 97 % within 0.1 s of the command',
           f'{ranged(ours)} s' + (f'; with ioeventfd=off {ranged(direct)} s' if direct else ''),
           median(ours) <= 0.1)
    target("at least 200 times faster than stock's default", f'{ranged(faster)} times',
           median(faster) >= 200)
    target("stretch: at most twice the host's own limit, measured beside it",
           f'{ranged(to_limit)} times', median(to_limit) <= 2)
    body = []
    for side in names(rows):
        of = pick(rows, side=side)
        cells = [ranged(values) if (values := column(of, field)) else ''
                 for field in ('first_s', 'half_s', 'most_s')]
        part = ratios(rows, 'most_s', 'stock-6.12', side)
        whole = len(column(of, 'most_s'))
        body.append([f'``{side}``', f'{whole} of {len(of)}', *cells, ranged(part) if side != 'stock-6.12' and part else ''])
    return ([f'A process of {mib} MiB ends in a guest. On stock the time counts from its end, at a',
             'fixed delay (the number, in ms; 6.12 knows only 2000). Ours was relaxed, at 60 s, held',
             'all of it, and was asked for the delay in its name: the time counts from the command.',
             '``limit-discard`` is a program on the host that touched as much and discards it in',
             'pieces of 2 MiB, ``limit-exit`` the end of one. ``no-ioeventfd``: the property of the',
             'balloon device that stock QEMU has, too; see ``docs/decisions/0019-what-reclaim-takes.md``.',
             'Some tens of MiB stay for seconds in the',
             "guest's per-CPU lists, where they are not free to report: of a small process, more than 3 %.",
             '']
            + environment(rows)
            + table(['side', 'times 97 % came', 'first byte, s', '50 %, s', '97 %, s', 'stock 6.12 to it, 97 %'], body)
            + results.picture('reclaim-curve', 'memory of the QEMU process over time')
            + [f'Medians of 97 %: stock 6.12 {number(median(stock))} s, ours {number(median(ours))} s,',
               f'the host alone {number(median(limit))} s.', ''])


def churn(results):
    rows = results.rows('churn')
    alone = pick(rows, guests_count='1')
    calm = ratios(alone, 'cycles_rate', 'steer-calm', 'off')
    target('calm steering costs at most 1 % of churn cycles against reporting off',
           f'{ranged([1 - value for value in calm], factor=100)} %', median(calm) >= 0.99)
    lines = []
    for guests, text in (('1', 'One guest'), ('2', 'Two guests at a time, figures of one')):
        body = []
        part = pick(rows, guests_count=guests)
        for side in names(part):
            of = pick(part, side=side)
            lost = [1 - value for value in
                    ratios(part, 'cycles_rate', side, 'off', ('round', 'which'))]
            body.append([f'``{side}``', number(sum(column(of, 'cycles_count')) / len(of)),
                         number(median(column(of, 'cycles_rate'))),
                         '' if side == 'off' else ranged(lost, 2, 100),
                         *(number(median(column(of, field))) for field in
                           ('mean_ms', 'p99_ms', 'host_faults_count', 'qemu_cpu_s'))])
        lines += [f'{text}:', ''] + table(
            ['side', 'cycles of a run', 'cycles a second', 'fewer than off, %',
             'allocation, mean ms', 'p99 ms', 'host minor faults', 'QEMU CPU s'], body)
    back = results.rows('churn-back')
    body = [[f'``{side}``', ranged(column(pick(back, side=side), 'most_s'))] for side in names(back)]
    mib = names(back, 'mib')[0]
    return (['A guest of one vCPU takes and frees memory every 0.4 s, or as fast as it goes. ``off``:',
             'no reporting. ``fixed-N``: at a delay of N ms. ``steer-calm`` and ``steer-short``: under',
             'balloon-steer with its standard values, on a host that has memory, and on one that is',
             'below its floor all the time (50 ms asked).', '']
            + environment(rows) + lines
            + [f'How soon {mib} MiB are back, 97 %. With balloon-steer the host is calm, and then short at',
               'once, without the way down on which the daemon looks more often: up to a second of it is',
               'the calm tick.', '']
            + table(['side', 'seconds'], body)
            + ['The trade of a fixed delay is a line; steering is a point off it, with the cost of the',
               'long delay and the time of the short one:', '']
            + results.picture('churn-trade', 'reclaim time against churn cost'))


def overhead(results):
    rows = results.rows('overhead')
    counted = pick(rows, measure='instructions')
    first = pick(counted, workload='anonymous 4k')
    for base in ('off', 'stock'):
        more = [value - 1 for value in ratios(first, 'instructions_rate', 'idle', base)]
        if more:
            target(f'on and idle: at most 0.1 % more instructions in page_fault1 than {base}',
                   f'{ranged(more, 2, 100)} %', median(more) <= 0.001)
    lines = []
    for measure, field, what in (
            ('instructions', 'instructions_rate', 'Guest instructions a fault, counted on one vCPU; '
             'more than stock, percent:'),
            ('wall', 'faults_rate', 'Faults a second of wall time; more than stock, percent:')):
        part = pick(rows, measure=measure)
        others = [side for side in names(part) if side != 'stock']
        body = []
        for vcpus in names(part, 'vcpus'):
            for workload in names(part, 'workload'):
                of = pick(part, workload=workload, vcpus=vcpus)
                body.append([workload, vcpus, number(median(column(pick(of, side='stock'), field)), 5),
                             *(ranged([value - 1 for value in ratios(of, field, side, 'stock')], 2, 100)
                               for side in others)])
        lines += [what, ''] + table(['workload', 'vCPUs', 'stock', *others], body)
    try:
        hot = results.rows('overhead-hotpath')
        target("hot path disassembly equal to stock's",
               ', '.join(f'{row["series"]}: {row["different_count"]} of {row["lines_count"]} lines differ'
                         for row in hot), all(row['different_count'] == '0' for row in hot))
    except Absent:
        target("hot path disassembly equal to stock's", 'not compared', False)
    return (['Page faults in the style of will-it-scale: ``anonymous`` as page_fault1, ``file`` as',
             'page_fault2. Reporting is on everywhere. ``off``: the feature is not offered; ``idle``:',
             'offered and left alone; ``changed``: the host changes the delay ten times a second.',
             'Under ``-icount shift=0`` the clock of the guest counts its instructions, those of its',
             'interrupts and reports with them. The hot path is ``mm/page_alloc.o``, into which',
             '``page_reporting_notify_free()`` is inlined.', '']
            + environment(rows) + lines
            + results.picture('overhead-instructions', 'instructions of a page fault, to stock'))


def latency(results):
    rows = results.rows('latency')
    body = []
    ways, slower = [('', rows)], []
    with contextlib.suppress(Absent):
        ways.append(('', results.rows('latency-libvirt')))
    with contextlib.suppress(Absent):
        slower = results.rows('latency-slower-host')
        ways.append((', slower host', slower))
    for host, part in ways:
        for load in names(part, 'load'):
            of = pick(part, load=load)
            body.append([of[0]['way'] + host, load, str(len(of)),
                         *(number(how(column(of, field))) for field in ('applied_ms', 'first_report_ms')
                           for how in (median, p99, max))])
    for load, how, what, most_ms in (('idle', median, 'p50', 1), ('idle', p99, 'p99', 3),
                                     ('busy', p99, 'p99', 10)):
        seen, other = (column(pick(part, load=load), 'applied_ms') for part in (rows, slower))
        target(f'QMP to applied, {load} guest: {what} under {most_ms} ms',
               f'{number(how(seen))} ms' + (f'; {number(how(other))} ms on a slower host' if other else ''),
               how(seen) < most_ms)
    return (['From ``balloon-set-report-delay`` (60 s to 0) to the query that shows it applied, and to',
             'the query that shows one more report. ``busy``: a process takes and frees 64 MiB every',
             '20 ms. ``paused``: asked while the guest is paused, counted from ``cont``. libvirt:',
             '``qemu-monitor-command`` in a virsh that stays open; each answer is a round trip through',
             'libvirtd.', '']
            + environment(sum((part for _, part in ways), []))
            + table(['through', 'guest', 'times', 'applied, p50 ms', 'p99', 'max',
                     'first report, p50 ms', 'p99', 'max'], body)
            + (['Not measured through libvirt.', ''] if not any(part[0]['way'] == 'libvirt' for _, part in ways) else []))


def guest_latency(results):
    rows = results.rows('guest-latency')
    body = [[load, what, str(len(values)), number(median(values)), number(p99(values)),
             number(max(values))]
            for load in names(rows, 'load')
            for field, what in (('interrupt_to_applied_us', 'config interrupt to written answer'),
                                ('changed_to_first_report_us', 'changed delay to first report'))
            for values in [column(pick(rows, load=load), field)]]
    return (["By the guest's own trace clock, without the host's way there and back.", '']
            + environment(rows) + table(['guest', 'from, to', 'times', 'p50, us', 'p99', 'max'], body))


def memhog(results):
    rows = results.rows('memhog')
    looks = [field for field in rows[0] if field.startswith('after_')]
    body = [[f'``{side}``', str(len(of)), *(ranged(column(of, field), 4) for field in
                                           ('fill_s', 'used_mib', *looks)),
             number(median(column(of, 'host_available_mib')), 5)]
            for side in names(rows) for of in [pick(rows, side=side)]]
    return (['A process fills the guest and ends, again and again; what the QEMU process holds in MiB.',
             '``steered``: relaxed at 60 s, asked for 0 when the process ends. ``two-nodes``: a guest of',
             'two NUMA nodes, at 250 ms, to see that both report.', '']
            + environment(rows)
            + table(['side', 'times', 'filled in s', 'filled',
                     *(f'{field.split("_")[1].removesuffix("s")} s after the end' for field in looks),
                     'host has available'], body)
            + results.picture('memhog-held', 'what QEMU holds after each cycle'))


def scale(results):
    rows = results.rows('scale')
    body = [[row['guests_count'], row['side'] + (f', {row["hostile_count"]} hostile'
                                                 if row['hostile_count'] != '0' else ''),
             *(number(row[field]) if row[field] else '' for field in
               ('crossed_to_last_ms', 'crossed_to_last_max_ms', 'first_to_last_ms',
                'calm_cpu_percent', 'urgent_cpu_percent', 'daemon_rss_mib', 'qemu_rss_mib'))]
            for row in rows]
    return (['QEMU: processes with a guest restored into each and paused, so that its driver has',
             'negotiated; the time is that of QEMU\'s own log. fake: servers that play QEMU, on the same',
             'CPUs. The host goes from TIGHT to below its floor.', '']
            + environment(rows)
            + table(['guests', 'what', 'crossed to last, p50 ms', 'max', 'first to last, p50 ms',
                     'daemon calm, % of a CPU', 'urgent', 'daemon MiB', 'all QEMUs MiB'], body)
            + results.picture('scale-guests', 'latency and CPU against the number of guests'))


def nogain(results):
    rows = results.rows('nogain')
    body = [[f'``{side}``', number(median(column(of, 'jobs_rate'))),
             '' if side == 'off' else ranged([value - 1 for value in
                                              ratios(rows, 'jobs_rate', side, 'off')], 2, 100),
             *(number(median(column(of, field))) for field in
               ('host_faults_count', 'qemu_cpu_s', 'reports_count'))]
            for side in names(rows) for of in [pick(rows, side=side)]]
    return (['Short processes that allocate a few MiB in small pieces and write files, as a build does,',
             'in a guest of two vCPUs. ``order-9-N``: blocks of 2 MiB are reported, the standard, at N',
             'ms. ``order-0-N``: every page is. At order 9 such work leaves few whole blocks to report,',
             'and the delay neither costs nor gains; at order 0 every page that is freed is one.', '']
            + environment(rows)
            + table(['side', 'jobs a second', 'more than off, %', 'host minor faults', 'QEMU CPU s',
                     'reports'], body)
            + results.picture('nogain-jobs', 'jobs against the delay'))


def device_cost(results):
    rows = results.rows('device-cost')
    base = names(rows)[0] if 'stock' not in names(rows) else 'stock'
    body = [[f'``{side}``', number(median(column(pick(rows, side=side), 'discards_rate')), 4),
             '' if side == base else ranged(ratios(rows, 'discards_rate', side, base), 4)]
            for side in names(rows)]
    return (['Discards a second of a device that a program drives through qtest: stock QEMU, ours with',
             'the property off and on.', '']
            + environment(rows) + table(['side', 'discards a second', f'to {base}'], body))


def compaction(results):
    rows = results.rows('compaction')

    def cells(side, workload, field, factor=1):
        of = pick(rows, side=side, workload=workload)
        base = BASES.get(side)
        part = ratios(pick(rows, workload=workload), field, side, base) if base else []
        return [ranged([factor * value for value in column(of, field)]) if of else '',
                ranged(part) if part else '']
    pins = [[f'``{side}``', *cells(side, 'pins', 'took_us', 1e-6),
             ranged(column(pick(rows, side=side, workload='pins'), 'compact_stall_count')),
             ranged(column(pick(rows, side=side, workload='pins'), 'pgscan_direct_count'))]
            for side in names(rows)]
    helps = [[f'``{side}``', workload, *cells(side, workload, 'huge_count'),
              *cells(side, workload, 'compact_success_count')]
             for side in names(pick(rows, workload='touch')) for workload in ('touch', 'pin')]
    count = names(pick(rows, workload='pins'), 'pieces_count')[0]
    return ([f'{count} long-term pins of 2 MiB, by io_uring in the place of an assigned device, want a NUMA',
             'node of which only CMA is free, and come from the other node. ``before``: 6.12 as it was',
             'before its releases gave up direct reclaim for a huge page of a single node.', '']
            + environment(rows)
            + table(['side', 'all pins, s', 'to its stock', 'compactions tried', 'pages reclaim looked at'], pins)
            + ['Huge pages asked for in fragmented memory without CMA, movable (touch) and not (pin).', '']
            + table(['side', 'asked by', 'huge pages', 'to stock', 'compactions that succeeded', 'to stock'], helps)
            + results.picture('compaction-pins', 'time of a pin against compactions'))


SECTIONS = (
    ('How soon is the memory back?', 'reclaim', reclaim),
    ('What does a delay cost a guest that uses memory again and again?', 'churn', churn),
    ('What does the feature cost a guest that does not use it?', 'overhead', overhead),
    ('Fill and exit, again and again', 'memhog', memhog),
    ('From the command to the answer', 'latency', latency),
    ('The same within the guest', 'guest-latency', guest_latency),
    ('Many guests', 'scale', scale),
    ('Where the delay does not matter', 'nogain', nogain),
    ('What a report costs QEMU', 'device-cost', device_cost),
    ('Pins where only CMA is free', 'compaction', compaction),
)


def page(results):
    """(the page's text, the benches that have not been run)"""
    TARGETS.clear()
    lines, absent = [], []
    for title, name, section in SECTIONS:
        lines += [title, '-' * len(title), '', f'``make bench-{name}``', '']
        try:
            lines += section(results)
        except Absent:
            absent.append(name)
            lines += ['Not measured.', '']
    verdicts = ([[text, shown, 'met' if met else '**missed**'] for text, shown, met in TARGETS])
    missed = sum(not met for _, _, met in TARGETS)
    head = (table(['target', 'measured', ''], verdicts) if verdicts else []) + [
        f'{len(verdicts) - missed} of {len(verdicts)} targets are met, {missed} missed.'
        + (f' Not measured: {", ".join(absent)}.' if absent else ''), '']
    return HEAD + '\n'.join(head + lines) + '\n' + ELSEWHERE, absent


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--results', type=Path, default=RESULTS, help='the folder of the CSVs')
    parser.add_argument('--output', type=Path, default=PAGE)
    parser.add_argument('--check', action='store_true', help='compare, write nothing')
    args = parser.parse_args()
    text, absent = page(Results(args.results.resolve(), args.output.resolve()))
    if args.check:
        if args.output.read_text(encoding='utf-8') != text:
            sys.exit(f'page.py: {args.output.name} is not what the CSVs give: run bench/page.py')
        return
    args.output.write_text(text, encoding='utf-8')
    for what, shown, met in TARGETS:
        print(f'page: {"met   " if met else "missed"} {what}: {shown}')
    for name in absent:
        print(f'page: not measured: {name}')


if __name__ == '__main__':
    main()
