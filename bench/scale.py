#!/usr/bin/python3
"""How does balloon-steer do with many guests? Real QEMUs, and a thousand played ones.

usage: scale.py [--smoke] [--rounds N] [--seconds N] [--settle N] [--fakes N]

make bench-scale builds what it needs.

1, 10 and 50 QEMU processes: a guest is booted once, saved, and restored into each of
them, paused, so that its driver has negotiated. The host's memory is what this
program says, from TIGHT to short: time from the moment it is short to the moment at
which each QEMU had its request, by QEMU's own log; the daemon's CPU time calm and under
pressure, and its memory. Then the same with fake QEMUs, by build/steer/bench-scale.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import contextlib
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from record import Bench, median, where
from guest import BUILD, DEVICE, Guest, wait_until
from qmp import QMP
from steered import BINARY, Steer
from watch import MIB, PAGE

REAL = (1, 10, 50)
SMOKE_REAL = (1, 3)
GUEST_MIB = 128
FAKE_PROGRAM = BUILD / 'steer/bench-scale'
SET = re.compile(r'(\d+)\.(\d+):virtio_balloon_report_delay_set delay: (-?\d+) ms')
IS_CALM, IS_TIGHT, IS_SHORT = (lambda ms: ms >= 10000), (lambda ms: ms == 500), (lambda ms: ms == 50)
START_SECONDS = 60
# A guest that is paused returns nothing, and would be left alone after 20 delays.
ALL_STEERED = 'no-effect-delays = 1000'


def cpu_s(pid):
    """Of all threads; the clock ticks of stat miss what is short."""
    return sum(int(path.read_text().split()[0])
               for path in Path(f'/proc/{pid}/task').glob('*/schedstat')) / 1e9


def rss_mib(pid):
    return int(Path(f'/proc/{pid}/statm').read_text().split()[1]) * PAGE / MIB


class Log:
    """The requests that a QEMU writes down, each with its time."""

    def __init__(self, path):
        self.path = path

    def last(self):
        """(seconds of the wall clock, delay) of the last one."""
        found = SET.findall(self.path.read_text(errors='replace')) if self.path.exists() else []
        return (int(found[-1][0]) + int(found[-1][1]) / 1e6, int(found[-1][2])) if found else (0, -1)


def restored(path):
    """Wait until a QEMU has the guest, and look at it; its monitor is free after that."""
    wait_until(path.exists, START_SECONDS, f'{path.name} is there')
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(path))
        qmp = QMP(sock)
        wait_until(lambda: qmp.command('query-status')['status'] not in ('inmigrate', 'postmigrate'),
                   START_SECONDS, lambda: f'{path.name}: {qmp.command("query-status")}')
        state = qmp.command('query-balloon-report-delay')
        assert state['negotiated'], state


@contextlib.contextmanager
def fleet(folder, count):
    """So many QEMUs with the same guest in them, paused: (processes, logs)."""
    state = folder / 'state'
    processes, logs = [], []
    with Guest(memory_mib=GUEST_MIB, device=DEVICE) as guest:
        guest.qmp.command('migrate', uri=f'file:{state}')
        wait_until(lambda: guest.qmp.command('query-migrate').get('status') == 'completed', 60,
                   'the guest is saved')
        accel, release, qemu, kernel, initrd = (guest.accel, guest.release, guest.qemu,
                                                guest.kernel, guest.initramfs)
    try:
        for number in range(count):
            logs.append(Log(folder / f'log-{number}'))
            command = ['setpriv', '--pdeathsig', 'KILL', qemu, '-nodefaults', '-no-user-config',
                       '-display', 'none', '-machine', 'q35', '-accel', accel, '-smp', '2',
                       '-m', str(GUEST_MIB), '-kernel', kernel, '-initrd', initrd, '-S',
                       '-serial', 'null', '-serial', 'null', '-device', DEVICE,
                       '-incoming', f'file:{state}', '-msg', 'timestamp=on',
                       '-trace', 'virtio_balloon_report_delay_set', '-D', logs[-1].path,
                       '-qmp', f'unix:{folder}/new-{number},server=on,wait=off']
            if accel == 'kvm':
                command += ['-cpu', 'host']
            processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                              stdout=subprocess.DEVNULL))
        for number in range(count):
            restored(folder / f'new-{number}')
        yield accel, release, processes, logs
    finally:
        for process in processes:
            process.kill()
            process.wait()


def enter(folder, count):
    """Let the daemon find them: it takes each socket of its folder for a QEMU that is up."""
    for number in range(count):
        (folder / f'new-{number}').rename(folder / f'qmp/vm{number}')


def wait_logs(logs, accept, said):
    """Until each QEMU's last request is accepted: the times of them."""
    def seen():
        return [log.last() for log in logs]
    wait_until(lambda: all(accept(delay) for _, delay in seen()), START_SECONDS,
               lambda: f'{[delay for _, delay in seen()]}; the daemon says:\n{said()}')
    return [at for at, _ in seen()]


def share(pid, seconds):
    """Percent of a CPU over so many seconds."""
    before, start = cpu_s(pid), time.monotonic()
    time.sleep(seconds)
    return 100 * (cpu_s(pid) - before) / (time.monotonic() - start)


def real(bench, count):
    """One size of the fleet: a row."""
    with tempfile.TemporaryDirectory(prefix='scale-') as name:
        folder = Path(name)
        with fleet(folder, count) as (accel, release, processes, logs), \
                Steer(folder, [p.pid for p in processes], hold_ms=300, more=ALL_STEERED) as steer:
            enter(folder, count)
            wait_logs(logs, IS_CALM, steer.said)
            pid = steer.process.pid
            calm = share(pid, bench.seconds)
            last_ms, first_ms = [], []
            for _ in range(bench.rounds):
                steer.tight()
                wait_logs(logs, IS_TIGHT, steer.said)
                crossed = time.time()
                steer.short()
                times = wait_logs(logs, IS_SHORT, steer.said)
                last_ms.append(1000 * (max(times) - crossed))
                first_ms.append(1000 * (min(times) - crossed))
            short = share(pid, bench.seconds)
            bench.add(accelerator=accel, kernel=release, vcpus=2, side='QEMU', guests_count=count,
                      hostile_count=0, crossed_to_first_ms=median(first_ms),
                      crossed_to_last_ms=median(last_ms), crossed_to_last_max_ms=max(last_ms),
                      first_to_last_ms=median(a - b for a, b in zip(last_ms, first_ms)),
                      calm_cpu_percent=calm, urgent_cpu_percent=short, daemon_rss_mib=rss_mib(pid),
                      qemu_rss_mib=sum(rss_mib(p.pid) for p in processes))
            steer.stop()


def fake(bench, count, hostile):
    """bench-scale: its figures in a row.

    Who is hostile is left alone for longer and longer, up to a minute: the calm figure is of
    the time when all have come that far, and of one such minute.
    """
    settle_s, seconds = (bench.settle, 3 * bench.seconds) if hostile else (5, bench.seconds)
    text = subprocess.run([FAKE_PROGRAM, BINARY, str(count), str(hostile),
                           str(bench.rounds), str(settle_s), str(seconds)], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    seen = dict(line.split(',') for line in text.split())
    bench.add(accelerator='host', side='fake', guests_count=count, hostile_count=hostile,
              crossed_to_last_ms=float(seen['crossed_to_last_ms_p50']),
              crossed_to_last_max_ms=float(seen['crossed_to_last_ms_max']),
              first_to_last_ms=float(seen['first_to_last_ms_p50']),
              calm_cpu_percent=float(seen['calm_cpu_percent']),
              urgent_cpu_percent=float(seen['urgent_cpu_percent']),
              daemon_rss_mib=float(seen['rss_mib']))


def plot(bench):
    """Latency and CPU against the number of guests."""
    data = {}
    for side in ('QEMU', 'fake'):
        data[side] = [(row['guests_count'], row['first_to_last_ms'], row['urgent_cpu_percent'])
                      for row in bench.rows if row['side'] == side
                      and (bench.smoke or not row['hostile_count'])]
    bench.plot('guests', f'''
set title "balloon-steer and the number of guests\\n{where(bench.rows)}"
set xlabel "guests"
set ylabel "from the first request to the last, ms"
set y2label "the daemon under pressure, percent of a CPU"
set logscale x
set xrange [0.8:1500]
set yrange [0:*]
set y2range [0:*]
set ytics nomirror
set y2tics
set key top left
plot $QEMU using 1:2 with linespoints lw 2 title "ms, QEMU", \\
     $fake using 1:2 with linespoints lw 2 title "ms, fake QEMUs", \\
     $QEMU using 1:3 axes x1y2 with linespoints dt 2 title "CPU, QEMU", \\
     $fake using 1:3 axes x1y2 with linespoints dt 2 title "CPU, fake QEMUs"
''', data)


def main():
    bench = Bench('scale', __doc__, rounds=(5, 1), seconds=(20, 1), settle=(90, 1), fakes=(1000, 10))
    if not FAKE_PROGRAM.exists():
        sys.exit(f'scale.py: {FAKE_PROGRAM} is not built: run `make bench-scale`')
    for count in SMOKE_REAL if bench.smoke else REAL:
        real(bench, count)
    for count, hostile in ((bench.fakes // 10, 0), (bench.fakes, 0),
                           (bench.fakes, bench.fakes // 10))[2 * bench.smoke:]:
        fake(bench, count, hostile)
    for row in bench.rows:
        bench.say(f'{row["guests_count"]} {row["side"]}, {row["hostile_count"]} hostile: '
                  f'crossed to last {row["crossed_to_last_ms"]:.1f} ms (median), first to last '
                  f'{row["first_to_last_ms"]:.1f} ms, CPU {row["calm_cpu_percent"]:.2f} % calm, '
                  f'{row["urgent_cpu_percent"]:.2f} % urgent, {row["daemon_rss_mib"]:.1f} MiB')
    bench.save()
    plot(bench)


if __name__ == '__main__':
    main()
