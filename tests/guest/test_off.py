"""What is off is as stock: the hot path's code, and what a guest does without the feature.

REPORT_DELAY_SERIES names the series; needs its kernel, patched and stock, and
QEMU, patched and stock.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import re
import subprocess
import time

import tap
from guest import BUILD, REPORTING, ROOT, Guest, nothing_happens_for, wait_until

SERIES = os.environ.get('REPORT_DELAY_SERIES', '6.12')
OURS, STOCK = SERIES, f'{SERIES}-stock'
STOCK_QEMU = BUILD / 'qemu-stock/qemu-system-x86_64'
SYSCTL = '/proc/sys/vm/page_reporting_delay_ms'
TRIGGER = '/proc/sys/vm/page_reporting_trigger'
MIB = 2**20
USED_MIB = 1024


def code(tree, kernel, path):
    """The machine code of an object, without where it was built."""
    obj = ROOT / f'build/src/{tree}/obj-{kernel}/{path}'
    done = subprocess.run(['objdump', '-dr', '--no-show-raw-insn', obj], check=True, text=True,
                          stdout=subprocess.PIPE)
    return [line for line in done.stdout.splitlines() if 'file format' not in line]


def test_hot_path():
    """page_reporting_notify_free() is inlined into the page allocator, all of which is compared."""
    ours = code(f'linux-{SERIES}', OURS, 'mm/page_alloc.o')
    stock = code(f'linux-{SERIES}-stock', STOCK, 'mm/page_alloc.o')
    assert any('__page_reporting_notify' in line for line in ours), 'the object has no hot path'
    assert ours == stock, next(f'{a}\n{b}' for a, b in zip(ours, stock) if a != b)
    tap.note(f'{len(ours)} lines of mm/page_alloc.o are equal')


def vmstat(guest):
    return {name: int(value) for name, value in
            re.findall(r'^(\S+) (\d+)$', guest.read('/proc/vmstat'), re.M)}


def live(kernel, device):
    """One workload: {what: how much}, the same for every kernel."""
    with Guest(series=kernel, memory_mib=2048, device=device) as guest:
        seen = {}
        if device:
            # The first round over all of memory, at 2 s a pass, is past.
            guest.wait_quiet(180)
        before = vmstat(guest)
        first = guest.delay() if device else None
        base = guest.rss()
        guest.hold(USED_MIB)
        peak, held = guest.rss(), vmstat(guest)
        guest.let_go()
        start = time.monotonic()
        if device:
            wait_until(lambda: peak - guest.rss() > 16 * MIB, 60, 'the first memory back')
            seen['first byte, s'] = time.monotonic() - start
            wait_until(lambda: peak - guest.rss() > 0.97 * (peak - base), 120, '97 % back')
            seen['97 %, s'] = time.monotonic() - start
            after = guest.delay()
            seen['reported, MiB'] = (after['reported-bytes'] - first['reported-bytes']) / MIB
            seen['discarded, MiB'] = (after['discarded-bytes'] - first['discarded-bytes']) / MIB
        after = vmstat(guest)
        seen['pgfree'] = after['pgfree'] - before['pgfree']
        # Letting go polls, with processes that have faults of their own.
        for name in ('pgfault', 'thp_fault_alloc'):
            seen[name] = held[name] - before[name]
        # What a guest that is left alone has none of.
        for name in ('balloon_inflate', 'balloon_deflate', 'compact_stall', 'pgmajfault'):
            seen[name] = after.get(name, 0)
        return seen


def equal_life(device):
    ours, stock = live(OURS, device), live(STOCK, device)
    for name, value in stock.items():
        tap.note(f'{name}: stock {value:.4g}, ours {ours[name]:.4g}')
    for name, value in stock.items():
        # Two runs of one kernel differ by some per cent; a delay by a factor.
        assert abs(ours[name] - value) <= 0.2 * max(abs(value), 5), (name, ours[name], value)
    assert 'first byte, s' not in ours or ours['first byte, s'] > 1, 'the delay is not 2 s'


def test_no_device():
    equal_life(None)


def test_not_offered():
    equal_life(REPORTING)


def test_stock_qemu():
    """The knobs are of use on any VMM that has free page reporting."""
    with Guest(series=OURS, memory_mib=2048, device=REPORTING, qemu=STOCK_QEMU) as guest:
        def back(base, peak):
            return (peak - guest.rss()) / (peak - base)
        guest.run(f'echo 60000 >{SYSCTL}')
        for write in (f'echo 1 >{TRIGGER}', f'echo 0 >{SYSCTL}'):
            guest.run(f'echo 1 >{TRIGGER}')
            time.sleep(3)  # its passes, which have no end that can be seen
            base, peak = guest.use_and_free(USED_MIB)
            nothing_happens_for(3)
            assert back(base, peak) < 0.1, 'it is back though the delay is a minute'
            guest.run(write)
            # What is in the guest's per-CPU lists is not free yet.
            wait_until(lambda base=base, peak=peak: back(base, peak) > 0.9, 10, f'{write}: 90 % back')


if __name__ == '__main__':
    tap.run([
        ('the hot path is stock\'s, instruction by instruction', test_hot_path),
        ('without the device a guest lives as on stock', test_no_device),
        ('with the feature not offered it reports as on stock', test_not_offered),
        ('sysctl and trigger serve on a stock QEMU', test_stock_qemu),
    ])
