"""With report-delay off, a machine moves from stock QEMU to ours and back.

On every versioned machine type that treats the balloon differently. Needs
build/qemu-stock (scripts/build qemu-stock), so this is for check-thorough.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import sys
import tempfile
import time
from pathlib import Path

import facts
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'guest'))
import tap  # pylint: disable=wrong-import-position

BUILD = Path(__file__).resolve().parents[2] / 'build'
OURS = BUILD / 'qemu/qemu-system-x86_64'
STOCK = BUILD / 'qemu-stock/qemu-system-x86_64'


def wait(vm, what='completed'):
    deadline = time.monotonic() + 60
    while (status := vm.qmp.command('query-migrate').get('status')) not in (what, 'failed'):
        assert time.monotonic() < deadline, status
        time.sleep(0.01)
    assert status == what, status


def move(source, target, machine, options, target_options=None, expect='completed'):
    with tempfile.NamedTemporaryFile() as file:
        first = facts.VM(source, machine, options)
        try:
            # Something to carry over.
            first.qmp.command('balloon', value=8 * 2**20)
            first.qmp.command('migrate', uri=f'file:{file.name}')
            wait(first)
        finally:
            first.close()
        second = facts.VM(target, machine, target_options or options, '-incoming', 'defer')
        try:
            second.qmp.command('migrate-incoming', uri=f'file:{file.name}', exit_on_error=False)
            deadline = time.monotonic() + 60
            while (status := second.qmp.command('query-migrate').get('status')) not in (
                    'completed', 'failed'):
                assert time.monotonic() < deadline, status
                time.sleep(0.01)
            assert status == expect, status
        finally:
            second.close()


def both_ways(machine, options):
    def test():
        move(STOCK, OURS, machine, options)
        move(OURS, STOCK, machine, options)
    return test


def test_refused_by_stock():
    """A request that stock could not know of does not get lost on the way."""
    move(OURS, STOCK, 'pc-q35-10.0', ',free-page-reporting=on,report-delay=on,report-delay-ms=5',
         ',free-page-reporting=on', 'failed')


if __name__ == '__main__':
    if not STOCK.exists():
        sys.exit('test_migrate_stock.py: build/qemu-stock is not built: run `scripts/build qemu-stock`')
    tap.run([(f'stock to ours and back: {machine}{options}', both_ways(machine, options))
             for machine in facts.MACHINES for options in ('', ',free-page-reporting=on')]
            + [('a request is not lost on stock: it refuses', test_refused_by_stock)])
