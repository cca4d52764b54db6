#!/usr/bin/python3
"""Is it worth steering? The law against fixed delays and PSI alone, in the model.

usage: steering.py [--smoke] [MODEL_COMPARE]

Writes bench/results/DATE-steering*.csv and .svg, and prints the tables. All of
it is steer/model, see its README for what that assumes.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import csv
import datetime
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONTENDERS = ['fixed-2s', 'fixed-100ms', 'fixed-30s', 'psi-only', 'steer']
STANDARD = 200          # percent of overcommit
OVERCOMMITS = [150, 175, 200, 210, 220, 240, 260, 300]
WORKS = ['idle', 'square', 'poisson', 'boot', 'saw', 'diurnal', 'leak', 'mixed']


class Bench:
    def __init__(self, program, smoke):
        self.program = program
        self.smoke = smoke
        self.rows = []

    def run(self, *options, keep=True):
        """The rows of one call of model-compare."""
        if self.smoke:
            options = ('--guests', '20', '--minutes', '12', *options)
        output = subprocess.run([self.program, *map(str, options)], check=True, text=True,
                                capture_output=True).stdout
        rows = list(csv.DictReader(output.splitlines()))
        if keep:
            self.rows += rows
        return rows

    def seeds(self, count):
        return ('--seeds', 2 if self.smoke else count)


def by_seed(rows):
    """{seed: {contender: row}}"""
    seeds = {}
    for row in rows:
        seeds.setdefault(row['seed'], {})[row['contender']] = row
    return seeds.values()


def spread(values):
    values = list(values)
    return statistics.median(values), min(values), max(values)


def ratios(rows, contender, field='refaulted_gib'):
    """To fixed 2 s, seed by seed."""
    return [float(seed[contender][field]) / max(float(seed['fixed-2s'][field]), 1e-9)
            for seed in by_seed(rows)]


def worse(rows):
    """On how many seeds ours stalls more than fixed 2 s."""
    return sum(float(seed['steer']['stall_s']) > float(seed['fixed-2s']['stall_s'])
               for seed in by_seed(rows))


def values(rows, contender, field):
    return [float(row[field]) for row in rows if row['contender'] == contender]


def table_contenders(rows):
    print(f"{'':12} {'re-faulted':>22} {'of fixed 2 s':>18} {'stall':>22}")
    print(f"{'':12} {'GiB, median (range)':>22} {'%':>18} {'guest-s, mean (max)':>22}")
    for name in CONTENDERS:
        low_mid_high = spread(values(rows, name, 'refaulted_gib'))
        part = spread(ratios(rows, name))
        stall = values(rows, name, 'stall_s')
        print('{:12} {:8.0f} ({:5.0f}-{:5.0f}) {:6.0f} ({:3.0f}-{:3.0f}) {:12.2f} ({:.2f})'.format(
            name, *low_mid_high, *(100 * p for p in part), statistics.mean(stall), max(stall)))


def table_overcommit(tables):
    print(f"{'guests/host':>12} {'re-faults of 2 s, %':>22} {'stall, mean guest-s':>36} {'worse':>8}"
          f" {'opposite':>9} {'calm cmds':>9}")
    print(f"{'%':>12} {'median (range)':>22} {'fixed 2 s':>12}{'PSI only':>12}{'ours':>12}"
          f" {'seeds':>8} {'in 10 s':>9} {'VM and h':>9}")
    for percent, rows in tables.items():
        part = [100 * p for p in spread(ratios(rows, 'steer'))]
        stalls = [statistics.mean(values(rows, name, 'stall_s'))
                  for name in ('fixed-2s', 'psi-only', 'steer')]
        print('{:12} {:10.0f} ({:3.0f}-{:3.0f})    {:12.2f}{:12.2f}{:12.2f} {:8} {:9.0f} {:9.0f}'.format(
            percent, *part, *stalls, worse(rows),
            max(values(rows, 'steer', 'opposite_in_10s')),
            max(values(rows, 'steer', 'calm_commands_per_vm_hour'))))


def table_works(tables):
    print(f"{'':12} {'re-faults of 2 s, %':>22} {'stall, mean guest-s':>36}")
    print(f"{'':12} {'median (range)':>22} {'fixed 2 s':>12}{'PSI only':>12}{'ours':>12}")
    for work, rows in tables.items():
        part = [100 * p for p in spread(ratios(rows, 'steer'))]
        stalls = [statistics.mean(values(rows, name, 'stall_s'))
                  for name in ('fixed-2s', 'psi-only', 'steer')]
        print('{:12} {:10.0f} ({:3.0f}-{:3.0f})    {:12.2f}{:12.2f}{:12.2f}'.format(
            work, *part, *stalls))


def search(bench):
    """The square wave, all guests in step, that makes the law change its mind most.

    A coarse grid, then steps of a factor around the worst until none is worse.
    """
    tried = {}

    def score(period, high, percent):
        key = (max(2, round(period)), min(100, max(30, round(high))),
               min(400, max(100, round(percent))))
        if key not in tried:
            rows = bench.run('--work', 'square', '--period', key[0], '--high', key[1],
                             '--overcommit', key[2], keep=False)
            tried[key] = {row['contender']: row for row in rows}
        return float(tried[key]['steer']['transitions']), key

    grid = [(p, h, o) for p in ((10, 60) if bench.smoke else (5, 10, 20, 40, 80, 160, 320))
            for h in (50, 75, 95) for o in ((200,) if bench.smoke else (120, 160, 200, 250, 300))]
    best = max(score(*point) for point in grid)
    for _ in range(6):
        period, high, percent = best[1]
        around = [score(period * a, high + b, percent * c)
                  for a in (0.7, 0.9, 1, 1.1, 1.4) for b in (-8, 0, 8) for c in (0.9, 1, 1.1)]
        if max(around)[0] <= best[0] or bench.smoke:
            break
        best = max(around)
    return best[1], tried


def print_search(worst, tried):
    print(f'{len(tried)} square waves tried, all guests in step. The worst: period {worst[0]} s, '
          f'up to {worst[1]} % of each guest, overcommit {worst[2]} %')
    for name, row in tried[worst].items():
        print('  {:12} re-faulted {:8.0f} GiB  stall {:9.1f} guest-s  {:>4} transitions an hour, '
              '{} opposite in 10 s, {} commands'.format(
                  name, float(row['refaulted_gib']), float(row['stall_s']), row['transitions'],
                  row['opposite_in_10s'], row['commands']))


def write_csv(path, rows):
    with path.open('w', newline='') as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator='\n')
        writer.writeheader()
        writer.writerows(rows)


def gnuplot(script):
    subprocess.run(['gnuplot'], input=script, text=True, check=True)


def plot_contenders(path, rows):
    lines = []
    for at, name in enumerate(CONTENDERS):
        mid, low, high = spread(values(rows, name, 'refaulted_gib'))
        lines.append(f'{at} {mid} {low} {high} "{name}"')
    data = '\n'.join(lines)
    gnuplot(f'''
set terminal svg size 720,360 font "sans,12" background "white"
set output "{path}"
$d << EOD
{data}
EOD
set title "Mixed workload, 100 guests, 1 hour: memory returned and wanted back"
set ylabel "re-faulted GiB (median, range over seeds)"
set yrange [0:*]
set style fill solid 0.6
set grid y
unset key
plot $d using 1:2:3:4:(0.6):xtic(5) with boxerrorbars lc rgb "#3465a4"
''')


def plot_overcommit(path, tables):
    data = '\n'.join('{} {} {} {} {} {}'.format(
        percent, *(100 * p for p in spread(ratios(rows, 'steer'))),
        statistics.mean(values(rows, 'fixed-2s', 'stall_s')),
        statistics.mean(values(rows, 'steer', 'stall_s'))) for percent, rows in tables.items())
    gnuplot(f'''
set terminal svg size 720,420 font "sans,12" background "white"
set output "{path}"
$d << EOD
{data}
EOD
set title "Mixed workload: what steering saves, and where it ends"
set xlabel "guests' memory in percent of the host's"
set ylabel "re-faults in percent of fixed 2 s"
set y2label "stall, guest-seconds an hour"
set yrange [0:120]
set y2range [0.01:10000]
set logscale y2
set ytics nomirror
set y2tics
set grid
set key left top
plot $d using 1:2:3:4 with yerrorlines lc rgb "#3465a4" title "re-faults, ours", \\
     $d using 1:($5 > 0.01 ? $5 : NaN) axes x1y2 with linespoints dt 2 lc rgb "#888888" title "stall, fixed 2 s", \\
     $d using 1:($6 > 0.01 ? $6 : NaN) axes x1y2 with linespoints lc rgb "#cc0000" title "stall, ours"
''')


def plot_hour(path, bench, log):
    bench.run('--only', 'steer', '--overcommit', 220, '--log', log, keep=False)
    gnuplot(f'''
set terminal svg size 900,520 font "sans,12" background "white"
set output "{path}"
set datafile separator ","
set title "An hour of the mixed workload, overcommit 220 %"
set xlabel "s"
set ylabel "GiB"
set y2label "state"
set y2range [0:12]
set y2tics ("CALM" 0, "EASY" 1, "WATCH" 2, "TIGHT" 3, "URGENT" 4)
set ytics nomirror
set xrange [0:3600]
set yrange [-60:200]
set key top center horizontal
plot "{log}" using 1:2 skip 1 every 4 with lines lc rgb "#3465a4" title "MemAvailable", \\
     "" using 1:($3 * 8) skip 1 every 60 with lines dt 2 lc rgb "#888888" title "8 F", \\
     "" using 1:4 skip 1 every 4 with lines lc rgb "#4e9a06" title "freed, not yet returned", \\
     "" using 1:7 skip 1 every 2 axes x1y2 with steps lc rgb "#cc0000" title "state"
''')
    Path(log).unlink()


def main():
    arguments = [a for a in sys.argv[1:] if a != '--smoke']
    smoke = '--smoke' in sys.argv
    program = arguments[0] if arguments else ROOT / 'build/steer/model/model-compare'
    if not Path(program).exists():
        sys.exit(f'steering.py: there is no {program}: build balloon-steer first')
    bench = Bench(program, smoke)
    results = ROOT / ('build/bench' if smoke else 'bench/results')
    results.mkdir(parents=True, exist_ok=True)
    stem = f'{results}/{datetime.date.today()}-steering'

    overcommit = {percent: bench.run('--overcommit', percent, *bench.seeds(20))
                  for percent in (OVERCOMMITS[:3] if smoke else OVERCOMMITS)}
    print(f'\nMixed workload, overcommit {STANDARD} %\n')
    table_contenders(overcommit[STANDARD])
    print('\nMixed workload, from plenty to far too little\n')
    table_overcommit(overcommit)
    print('\nThe same with 20 guests: a small host, where one guest weighs more\n')
    table_overcommit({percent: bench.run('--overcommit', percent, '--guests', 20, *bench.seeds(20))
                      for percent in OVERCOMMITS[1:6:2]})
    print(f'\nOne kind of guest alone, overcommit {STANDARD} %\n')
    table_works({work: bench.run('--work', work, '--overcommit', STANDARD, *bench.seeds(10))
                 for work in WORKS if work != 'mixed'})
    write_csv(Path(f'{stem}.csv'), bench.rows)

    print()
    worst, tried = search(bench)
    print_search(worst, tried)
    write_csv(Path(f'{stem}-search.csv'), [row for rows in tried.values() for row in rows.values()])

    plot_contenders(f'{stem}-contenders.svg', overcommit[STANDARD])
    plot_overcommit(f'{stem}-overcommit.svg', overcommit)
    plot_hour(f'{stem}-hour.svg', bench, f'{stem}-hour.csv')
    print(f'\n{stem}*.csv, *.svg')


if __name__ == '__main__':
    main()
