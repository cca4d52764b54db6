"""Compaction where it cannot help, and where it does: two nodes, CMA on one of them.

    test_compaction.py [PART-OF-A-NAME]

No device can be assigned here. In its place io_uring buffers are registered,
which takes the same kind of pin (long-term, so not in CMA) of memory that
nobody has touched yet: as much as node 0 has outside CMA, and then more.
REPORT_DELAY_SERIES names the kernel, one with the fragment "numa"; 6.12 with
"stock" in its name is the control that compacts in vain.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import re
from typing import NamedTuple

import tap
from guest import Guest

SERIES = os.environ.get('REPORT_DELAY_SERIES', '6.12-numa')
# 7.3 needs no patch for this, so its stock is no control.
IN_VAIN = SERIES.startswith('6.12-stock')

THP = '/sys/kernel/mm/transparent_hugepage'
# mm/compaction.c: compact_gap() of order 9
GAP_PAGES = 1024
PIECE_MIB = 2
FREED_PIECES = 8


class Shape(NamedTuple):
    """Two nodes; the first has CMA. Free CMA is never touched: it costs the host nothing."""
    node0_mib: int
    cma_mib: int
    node1_mib: int
    below_4g: str

    def options(self):
        words = []
        for node, mib in enumerate((self.node0_mib, self.node1_mib)):
            # Node 1 is there before it is used: the host's page faults are not what is measured.
            words += ['-object', f'memory-backend-ram,id=node{node},size={mib}M,'
                                 f'prealloc={"on" if node else "off"}',
                      '-numa', f'node,nodeid={node},memdev=node{node},cpus={node}']
        return words


# All of node 0 in one zone but for the 16 MiB of DMA, node 1 in another.
SMALL = Shape(2048, 1280, 1024, '2G')
# The same without CMA: what node 0 of SMALL has outside CMA, or about that.
NO_CMA = Shape(768, 0, 1024, '2G')
PINS_MIB = 512


class Nodes(Guest):
    """A guest with the nodes of a shape, quiet but for what a test does."""

    def __init__(self, shape, series=SERIES, options=()):
        # No ZONE_DMA to speak of: its few blocks are below the watermark or not by chance.
        append = 'memmap=15M$1M' + (f' numa_cma=0:{shape.cma_mib}M' if shape.cma_mib else '')
        # A socket each: Linux warns of cores that share one across nodes.
        super().__init__(series=series, memory_mib=shape.node0_mib + shape.node1_mib,
                         device=None, append=append,
                         options=['-smp', '2,sockets=2', *shape.options(), *options],
                         machine=f'q35,max-ram-below-4g={shape.below_4g}')
        quiet(self)


def quiet(guest):
    """Nobody else compacts or collapses, and free pages are in the free lists.

    By default a processor keeps as many for itself as the watermark does.
    """
    guest.run('echo 0 >/proc/sys/vm/compaction_proactiveness; '
              'echo 1000000 >/proc/sys/vm/percpu_pagelist_high_fraction; '
              f'echo 4000000 >{THP}/khugepaged/scan_sleep_millisecs; '
              f'echo madvise >{THP}/defrag')


def zones(guest):
    """Every populated zone, in pages: node, zone, free, min, managed, cma, free_cma."""
    guest.run('echo 1 >/proc/sys/vm/stat_refresh')
    found = []
    for text in re.split(r'^(?=Node \d)', guest.read('/proc/zoneinfo'), flags=re.M)[1:]:
        node, zone = re.match(r'Node (\d+), zone\s+(\w+)', text).groups()
        number = {name: int(re.search(rf'^\s+{pattern}\s+(\d+)$', text, re.M).group(1))
                  for name, pattern in (('free', 'pages free'), ('min', 'min'), ('cma', 'cma'),
                                        ('managed', 'managed'))}
        if number['managed']:
            cma = re.search(r'^\s+nr_free_cma\s+(\d+)$', text, re.M)
            found.append({'node': int(node), 'zone': zone, **number,
                          'free_cma': int(cma.group(1)) if cma else 0})
    return found


def numbers(line):
    """{name: number} of a line "what name number name number ..."."""
    words = line.split()[1:]
    return {name: int(value) for name, value in zip(words[::2], words[1::2])}


def parse(output):
    """Each line of longpin or fragthp by its first word; the counters as one."""
    lines = {}
    for line in output.splitlines():
        if line.startswith('vmstat '):
            lines.setdefault('vmstat', {}).update(numbers(line))
        elif re.match(r'(fill|pins|frag|thp) ', line):
            lines[line.split()[0]] = numbers(line)
    return lines


def pin(guest, shape):
    """Fill node 0 with pins and take more, until un_pin(): what longpin says.

    It runs on in the background, so its word is in a file.
    """
    guest.run(f'longpin 0 {shape.node0_mib} {PINS_MIB} >/tmp/longpin 2>&1 & '
              'echo $! >/tmp/pid; until grep -q "^holding" /tmp/longpin; do '
              'kill -0 $(cat /tmp/pid) || { cat /tmp/longpin; exit 1; }; usleep 10000; done',
              seconds=600)
    return parse(guest.read('/tmp/longpin'))


def un_pin(guest):
    guest.run('kill $(cat /tmp/pid); while kill -0 $(cat /tmp/pid) 2>/dev/null; '
              'do usleep 10000; done')


def note(said):
    for what, values in said.items():
        tap.note(f'{what}: ' + ', '.join(f'{name} {value}' for name, value in values.items()
                                         if value or what != 'vmstat'))


def test_nodes():
    with Nodes(SMALL) as guest:
        tap.note(f'accelerator {guest.accel}, kernel {guest.release}')
        found = zones(guest)
        for zone in found:
            tap.note(zone)
        assert {zone['node'] for zone in found} == {0, 1}
        cma = sum(zone['cma'] for zone in found if zone['node'] == 0) * 4096
        assert cma == SMALL.cma_mib * 2**20, cma
        assert not any(zone['cma'] for zone in found if zone['node'] == 1)


def check_pins(said):
    """All are huge, and from where there was memory for them."""
    pieces = PINS_MIB // PIECE_MIB
    assert said['fill']['node0'] > 0 and said['fill']['node1'] >= 4, said['fill']
    assert said['fill']['pieces'] < SMALL.node0_mib // PIECE_MIB, 'node 0 was never full'
    assert said['pins']['pieces'] == said['pins']['huge'] == pieces, said['pins']
    # What somebody on node 0 frees meanwhile is taken, rightly.
    assert said['pins']['node1'] >= pieces - FREED_PIECES, said['pins']


def test_only_cma():
    with Nodes(SMALL) as guest:
        said = pin(guest, SMALL)
        note(said)
        check_pins(said)
        # The case is the one that we mean: free CMA in plenty, below the watermark without.
        for zone in (zone for zone in zones(guest) if zone['node'] == 0 and zone['cma']):
            tap.note(zone)
            assert zone['free_cma'] > zone['cma'] * 3 // 4, zone
            assert zone['free'] - zone['free_cma'] <= zone['min'] + GAP_PAGES, zone
        if IN_VAIN:
            assert said['vmstat']['compact_stall'] >= said['pins']['node1']
            assert said['vmstat']['compact_success'] == 0
        else:
            assert said['vmstat']['compact_stall'] == 0
        un_pin(guest)


def test_no_cma():
    """What stock does, too, where there is no CMA: the free memory is below the watermark."""
    with Nodes(NO_CMA) as guest:
        said = pin(guest, NO_CMA)
        note(said)
        check_pins(said)
        assert said['vmstat']['compact_stall'] == 0
        un_pin(guest)


# Of one node without CMA: what is left unfilled, in percent freed, asked for as huge pages.
FRAGMENTED_MIB = 1024
LEAVE_MIB, FREED_PERCENT, ASKED_MIB = 32, 40, 128
# So many that some are not to be had: a success more or less would be seen.
ALL_MIB = 320
# 8 MiB: with the watermarks that THP raises, what is unfilled would be half of the guest.
MIN_FREE_KIB = 8192


def fragmented(guest, how, seed, asked_mib=ASKED_MIB):
    """Ask for huge pages in fragmented memory: what fragthp says."""
    quiet(guest)
    guest.run(f'echo {MIN_FREE_KIB} >/proc/sys/vm/min_free_kbytes')
    said = parse(guest.run(f'fragthp {LEAVE_MIB} {FREED_PERCENT} {asked_mib} {how} {seed}',
                           seconds=600)[1])
    # There is no huge page without compaction: what is left are the reserves of DMA.
    assert said['frag']['free-order9'] <= 4, said['frag']
    return said


def helps(how):
    with Guest(series=SERIES, memory_mib=FRAGMENTED_MIB, device=None) as guest:
        said = fragmented(guest, how, 1)
        note(said)
        assert said['vmstat']['compact_success'] > 0
        assert said['thp']['huge'] >= said['thp']['pieces'] * 9 // 10, said['thp']


if __name__ == '__main__':
    tap.run([
        ('there are two nodes, and CMA on one', test_nodes),
        ('pins that node 0 has only CMA for compact in vain, in stock' if IN_VAIN else
         'pins that node 0 has only CMA for come from node 1 at once', test_only_cma),
        ('so do pins that node 0 has nothing for', test_no_cma),
        ('compaction makes movable huge pages', lambda: helps('touch')),
        ('compaction makes unmovable huge pages', lambda: helps('pin')),
    ])
