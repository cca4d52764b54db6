#!/usr/bin/python3
"""Does a report cost QEMU more than it did? Discards a second, stock and patched.

usage: device_cost.py [--smoke] [--rounds N] [--reports N]    make bench-device-cost builds both sides first

A driver that this program plays, over the qtest protocol, reports blocks of
4 KiB that were never touched, so that the device's own work is what counts.
Both QEMUs run in turn, ROUNDS times; the ratio is ours to stock's of each pair.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import base64
import socket
import struct
import subprocess
import sys
import time

from record import ROOT, Bench, ratios, spread, turns

SIDES = {'stock': (ROOT / 'build/qemu-stock/qemu-system-x86_64', ''),
         'off': (ROOT / 'build/qemu/qemu-system-x86_64', ''),
         'on': (ROOT / 'build/qemu/qemu-system-x86_64', ',report-delay=on')}
BLOCKS = 512            # of an indirect table, so of a report
PAGE = 4096
# Guest memory: the ring, the table of blocks, the blocks themselves.
RING, TABLE, BLOCK0 = 0x100000, 0x110000, 0x2000000
QUEUE = 3               # inflate, deflate, stats, reporting
IO = 0xc000


class Driver:
    """A legacy virtio-pci driver of a balloon, through qtest."""

    def __init__(self, qemu, options):
        ours, child = socket.socketpair()
        self.process = subprocess.Popen(
            ['setpriv', '--pdeathsig', 'KILL', qemu, '-M', 'pc', '-m', '128', '-nodefaults',
             '-display', 'none', '-accel', 'qtest', '-qtest', 'chardev:qtest',
             '-chardev', f'socket,id=qtest,fd={child.fileno()}',
             '-device', 'virtio-balloon-pci,addr=4,disable-modern=on,ioeventfd=off,page-poison=off,'
             f'free-page-reporting=on{options}'],
            pass_fds=[child.fileno()], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        child.close()
        self.file = ours.makefile('rw', newline='\n')
        self.avail = 0
        self.start()

    def ask(self, line):
        self.file.write(line + '\n')
        self.file.flush()
        while not (answer := self.file.readline()).startswith('OK'):
            if not answer.startswith('IRQ'):
                sys.exit(f'device_cost.py: QEMU answers {answer!r} to {line!r}')
        return answer.split()[1:]

    def config(self, register, value):
        self.ask(f'outl 0xcf8 {0x80000000 | 4 << 11 | register:#x}')
        self.ask(f'outl 0xcfc {value:#x}')

    def memory(self, addr, data):
        self.ask(f'b64write {addr:#x} {len(data):#x} {base64.b64encode(data).decode()}')

    def start(self):
        self.config(0x10, IO)
        self.config(0x04, 7)
        self.ask(f'outb {IO + 18:#x} 3')                       # ACKNOWLEDGE, DRIVER
        self.ask(f'outl {IO + 4:#x} {1 << 28 | 1 << 5:#x}')    # indirect, reporting
        self.ask(f'outw {IO + 14:#x} {QUEUE}')
        size = int(self.ask(f'inw {IO + 12:#x}')[0], 16)
        self.used = RING + (size * 16 + 2 * (3 + size) + PAGE - 1) // PAGE * PAGE
        self.ring = RING + size * 16
        self.memory(RING, bytes(self.used + PAGE - RING))
        # One descriptor: the table, whose blocks the device may write.
        self.memory(RING, struct.pack('<QIHH', TABLE, BLOCKS * 16, 4, 0))
        self.memory(TABLE, b''.join(
            struct.pack('<QIHH', BLOCK0 + i * PAGE, PAGE, 2 | (i + 1 < BLOCKS), (i + 1) % BLOCKS)
            for i in range(BLOCKS)))
        self.ask(f'outl {IO + 8:#x} {RING // PAGE:#x}')
        self.ask(f'outb {IO + 18:#x} 7')                       # DRIVER_OK

    def report(self):
        self.avail = (self.avail + 1) & 0xffff
        self.ask(f'writew {self.ring + 2:#x} {self.avail:#x}')
        self.ask(f'outw {IO + 16:#x} {QUEUE}')

    def rate(self, reports):
        """Discards a second over that many reports."""
        start = time.perf_counter()
        for _ in range(reports):
            self.report()
        took = time.perf_counter() - start
        used = int(self.ask(f'readw {self.used + 2:#x}')[0], 16)
        assert used == self.avail, f'{self.avail} reports made, {used} used'
        return reports * BLOCKS / took

    def close(self):
        self.process.kill()
        self.process.wait()


def main():
    bench = Bench('device-cost', __doc__, rounds=(30, 2), reports=(1000, 20))
    sides = {name: side for name, side in SIDES.items() if not bench.smoke or name != 'stock'}
    for qemu, _ in sides.values():
        if not qemu.exists():
            sys.exit(f'device_cost.py: {qemu} is not built: run `make bench-device-cost`')
    drivers = {name: Driver(*side) for name, side in sides.items()}
    for number in range(bench.rounds):
        for name in turns(drivers, number):
            bench.add(accelerator='qtest', round=number, side=name,
                      discards_rate=round(drivers[name].rate(bench.reports)))
    for driver in drivers.values():
        driver.close()

    base = next(iter(sides))
    for name in list(sides)[1:]:
        middle, low, high = spread(ratios(bench.rows, 'discards_rate', name, base))
        bench.say(f'{name} / {base}: median {middle:.3f}, {low:.3f} to {high:.3f}, '
                  f'{bench.rounds} rounds of {bench.reports * BLOCKS} discards')
    bench.save()


if __name__ == '__main__':
    main()
