#!/usr/bin/python3
"""How long from the host's command to the guest's answer, and to the first report?

usage: latency.py [--smoke] [--rounds N] [--libvirt-rounds N]    make bench-latency

A guest at a delay of 60 s is asked for 0, over QMP: the times are those at which
query-balloon-report-delay, asked again and again, shows the value applied, and
one more report. Idle; with a process in it that takes and frees memory; and asked
while it is paused, counted from `cont`. The same by libvirt's
qemu-monitor-command, in one virsh that stays open. Before each, the guest frees
some memory that waits to be reported.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import subprocess
import sys
import time

from record import ROOT, Bench, median, p99, turns
from guest import Guest

LOADS = ('idle', 'busy', 'paused')
RELAXED_MS = 60000
# Freed before each command, of a program that holds PIECES of it. Of a few huge
# pages the kernel would keep all in per-CPU lists, where none is free to report.
PIECE_MIB, PIECES = 8, 20
SHORT_LISTS = 'echo 100000 >/proc/sys/vm/percpu_pagelist_high_fraction'
GUEST_MIB = 768
BUSY = 'churn 64 20'
QUERY, SET = 'query-balloon-report-delay', 'balloon-set-report-delay'
ANSWER_SECONDS = 30


class Direct:
    """A guest by QMP."""

    def __init__(self):
        self.guest = Guest(memory_mib=GUEST_MIB)
        self.accel, self.release, self.cpus = self.guest.accel, self.guest.release, self.guest.cpus
        self.command = self.guest.qmp.command
        self.run = self.guest.run

    def close(self):
        self.guest.close()
        self.guest.check_console()


class Libvirt:
    """A guest by a virsh that stays open."""

    def __init__(self, host, console, accel):
        self.accel, self.cpus = accel, 2  # as the page's domain has
        self.run = console.run
        self.release = console.run('uname -r')
        self.virsh = subprocess.Popen(host.command('-q'), stdin=subprocess.PIPE, text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def command(self, name, **arguments):
        message = json.dumps({'execute': name, 'arguments': {
            key.replace('_', '-'): value for key, value in arguments.items()}})
        self.virsh.stdin.write(f"qemu-monitor-command steered '{message}'\n")
        self.virsh.stdin.flush()
        while '"return"' not in (line := self.virsh.stdout.readline()):
            if not line or '"error"' in line:
                raise OSError(f'virsh: {line}')
        return json.loads(line[line.index('{"'):])['return']

    def close(self):
        self.virsh.stdin.close()
        self.virsh.wait()
        self.virsh.stdout.close()


class Pieces:
    """A program in the guest that holds memory and frees a piece of it when asked."""

    def __init__(self, machine):
        self.machine = machine
        self.left = 0
        machine.run(SHORT_LISTS)

    def free(self):
        if self.left == 0:
            # The pipe stays open: memhog has both of its ends.
            words = ' '.join([str(PIECE_MIB)] * PIECES)
            self.machine.run('[ ! -e /tmp/pieces ] || kill $(cat /tmp/pieces); '
                             'rm -f /tmp/said; mkfifo /tmp/said; exec 3<>/tmp/said; '
                             f'memhog {words} >&3 & echo $! >/tmp/pieces; read said <&3')
            self.left = PIECES
        self.left -= 1
        # By what the shell has itself: a new program costs more than what is measured.
        self.machine.run('read pid </tmp/pieces; kill -USR1 $pid; read said </tmp/said; '
                         f'[ "$said" = "holding {PIECE_MIB * self.left}" ]')


def wait_for(machine, done, what):
    """Ask until done(answer) is true; the moment at which that was seen."""
    end = time.monotonic() + ANSWER_SECONDS
    while True:
        answer = machine.command(QUERY)
        now = time.monotonic()
        if done(answer):
            return now
        if now > end:
            raise TimeoutError(f'{what} not within {ANSWER_SECONDS} s: {answer}')


def once(machine, pieces, load):
    """{what: ms} of one change from 60 s to 0."""
    machine.command(SET, delay_ms=RELAXED_MS)
    wait_for(machine, lambda a: a.get('applied-ms') == RELAXED_MS, 'relaxed')
    pieces.free()
    if load == 'paused':
        machine.command('stop')
        machine.command(SET, delay_ms=0)
        before = machine.command(QUERY)['reports']
        start = time.monotonic()
        machine.command('cont')
    else:
        before = machine.command(QUERY)['reports']
        start = time.monotonic()
        machine.command(SET, delay_ms=0)
    applied = wait_for(machine, lambda a: a.get('applied-ms') == 0, 'applied')
    report = wait_for(machine, lambda a: a['reports'] > before, 'a report')
    return {'applied_ms': 1000 * (applied - start), 'first_report_ms': 1000 * (report - start)}


def measure(bench, machine, way, rounds):
    """All loads in turn, a tenth of the rounds at a time: a load needs some time to begin."""
    pieces = Pieces(machine)
    block = max(rounds // 10, 1)
    for number in range(0, rounds, block):
        for load in turns(LOADS, number // block):
            if load == 'busy':
                machine.run(f'{BUSY} >/dev/null & echo $! >/tmp/busy')
            for at in range(number, min(number + block, rounds)):
                bench.add(machine, round=at, way=way, load=load, **once(machine, pieces, load))
            if load == 'busy':
                machine.run('kill $(cat /tmp/busy)')
    for load in LOADS:
        rows = [row for row in bench.rows if row['way'] == way and row['load'] == load]
        bench.say(f'{way}, {load}: ' + ', '.join(
            f'{what[:-3].replace("_", " ")} median {median(row[what] for row in rows):.2f} ms, '
            f'p99 {p99(row[what] for row in rows):.2f} ms'
            for what in ('applied_ms', 'first_report_ms')) + f', {len(rows)} times')


def inside_libvirt(bench):
    """In the place that tests/libvirt makes: the rows go to stdout."""
    sys.path.insert(0, str(ROOT / 'tests/libvirt'))
    # pylint: disable=import-outside-toplevel,import-error
    import host as libvirt

    def main():
        with libvirt.Host() as host:
            host.define(libvirt.domain_xml(memory_mib=GUEST_MIB))
            host.virsh('start', libvirt.NAME)
            with libvirt.Console(host) as console:
                host.wait_applied(2000)
                machine = Libvirt(host, console, libvirt.accelerator())
                measure(bench, machine, 'libvirt', bench.libvirt_rounds)
                machine.close()
            host.check_kernel()
        bench.save()
    libvirt.enter(main)


def main():
    inside = '--inside-libvirt' in sys.argv
    if inside:
        sys.argv.remove('--inside-libvirt')
    bench = Bench('latency-libvirt' if inside else 'latency', __doc__,
                  rounds=(1000, 5), **{'libvirt_rounds': (200, 5)})
    if inside:
        inside_libvirt(bench)
    machine = Direct()
    try:
        measure(bench, machine, 'QMP', bench.rounds)
    finally:
        machine.close()
    bench.save()
    if bench.smoke:
        return
    done = subprocess.run([sys.executable, __file__, '--inside-libvirt', *sys.argv[1:]], check=False)
    if done.returncode:
        sys.exit('latency.py: not measured through libvirt: run `scripts/setup libvirt`')


if __name__ == '__main__':
    main()
