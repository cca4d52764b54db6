"""What the benches share: sizes, turns, statistics, CSV and pictures.

    bench = Bench('reclaim', rounds=(3, 1), mib=(10240, 128))
    for number in range(bench.rounds):
        for side in turns(SIDES, number):
            bench.add(guest, round=number, side=side, took_s=...)
    bench.save()

Each size is (as it is recorded, for --smoke), and an option: `--rounds 1`.
Every row says when, under which accelerator, with which guest kernel, on how
many CPUs it was measured. --smoke writes to a temporary folder, or to that of
REPORT_DELAY_RESULTS, and reads the CSV back.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse
import csv
import datetime
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / 'tests/guest')]
RESULTS = ROOT / 'bench/results'
# On every row: the host's CPUs are `cpus`, the guest's `vcpus`.
COMMON = ('date', 'accelerator', 'kernel', 'cpus', 'vcpus')
# A column whose name ends in a unit has a number in it, or nothing.
NUMBER = re.compile(r'.*_(s|ms|us|mib|percent|count|rate)')


def median(values):
    return statistics.median(list(values))


def p99(values):
    values = sorted(values)
    return values[(len(values) - 1) * 99 // 100]


def spread(values):
    """(median, least, most)"""
    values = list(values)
    return median(values), min(values), max(values)


def turns(sides, number):
    """The sides in the order of round `number`: none of them is always the first."""
    sides = list(sides)
    at = number % len(sides)
    return sides[at:] + sides[:at]


def ratios(rows, field, side, base, by=('round',)):
    """field of a side to that of another, pair by pair: rows that agree in `by`."""
    def pairs(name):
        return {tuple(row[key] for key in by): float(row[field])
                for row in rows if row['side'] == name and row[field] not in ('', None)}
    ours, theirs = pairs(side), pairs(base)
    return [ours[key] / theirs[key] for key in ours if theirs.get(key)]


def check(path):
    """Raise ValueError if a CSV is not as the page and a reader expect it."""
    rows = read(path)
    if not rows:
        raise ValueError(f'{path.name} has no rows')
    for number, row in enumerate(rows, 2):
        for field in COMMON:
            if not row.get(field):
                raise ValueError(f'{path.name}:{number}: no {field}')
        for field, value in row.items():
            if field is None or value is None:
                raise ValueError(f'{path.name}:{number}: the columns do not fit')
            if NUMBER.fullmatch(field) and value:
                float(value)


def read(path):
    """The rows of a CSV, as dicts of text."""
    with path.open(newline='', encoding='ascii') as file:
        return list(csv.DictReader(file))


def write(path, rows):
    """Rows with the columns of all of them, in the order in which they come up."""
    fields = list(dict.fromkeys(field for row in rows for field in row))
    with path.open('w', newline='', encoding='ascii') as file:
        writer = csv.DictWriter(file, fields, lineterminator='\n')
        writer.writeheader()
        writer.writerows(rows)


def where(rows):
    """Accelerator, kernels and CPUs of rows, for a title or a caption.

    What was measured on the host alone is named only where nothing else was.
    """
    rows = [row for row in rows if row['accelerator'] != 'host'] or rows

    def all_of(field):
        return ', '.join(dict.fromkeys(row[field] for row in rows if row[field] != 'none'))
    kernels = all_of('kernel')
    vcpus = all_of('vcpus')
    return (f'{all_of("accelerator").upper()}, {all_of("cpus")} CPUs'
            + (f', guest with {vcpus} vCPU' if vcpus else '')
            + (f', Linux {kernels}' if kernels else ''))


def gnuplot(path, script, data=None, size=(820, 460)):
    """Draw an SVG. data: {name: rows of numbers}, in the script as $name."""
    head = [f'set terminal svg size {size[0]},{size[1]} font "sans,12" background "white"',
            f'set output "{path}"', 'set grid']
    for name, rows in (data or {}).items():
        head += [f'${name} << EOD', *(' '.join(map(str, row)) for row in rows), 'EOD']
    subprocess.run(['gnuplot'], input='\n'.join(head) + '\n' + script, text=True, check=True)


class Bench:
    """One run of a bench; see the module's text. Attributes: smoke, and each size by its name."""

    def __init__(self, name, text, **sizes):
        parser = argparse.ArgumentParser(description=text.partition('\n')[0])
        parser.add_argument('--smoke', action='store_true',
                            help='tiny, and recorded nowhere: does it work at all?')
        for option, (full, tiny) in sizes.items():
            parser.add_argument(f'--{option.replace("_", "-")}', type=int, metavar='N',
                                help=f'{full}, with --smoke {tiny}')
        given = vars(parser.parse_args())
        self.name = name
        self.smoke = given['smoke']
        for option, pair in sizes.items():
            setattr(self, option, pair[self.smoke] if given[option] is None else given[option])
        self.date = str(datetime.date.today())
        self.tables = {'': []}
        folder = os.environ.get('REPORT_DELAY_RESULTS')
        if self.smoke and not folder:
            self.temporary = tempfile.TemporaryDirectory(prefix='bench-')
            folder = self.temporary.name
        self.folder = Path(folder or RESULTS)
        self.folder.mkdir(exist_ok=True)

    @property
    def rows(self):
        return self.tables['']

    def add(self, guest=None, table='', accelerator='none', kernel='none', vcpus='none', **values):
        """A row. guest: what has .accel, .release and .cpus; or say those yourself. None: ''."""
        if guest:
            accelerator, kernel, vcpus = guest.accel, guest.release, guest.cpus
        values = {name: round(value, 6) if isinstance(value, float) else value
                  for name, value in values.items()}
        values = {name: '' if value is None else value for name, value in values.items()}
        row = dict(zip(COMMON, map(str, (self.date, accelerator, kernel, os.cpu_count(), vcpus))))
        self.tables.setdefault(table, []).append(row | values)
        return row | values

    def path(self, kind, ending):
        return self.folder / f'{self.date}-{self.name}{"-" * bool(kind)}{kind}.{ending}'

    def say(self, text):
        print(f'{self.name}: {text}', flush=True)

    def plot(self, kind, script, data, size=(820, 460)):
        """A picture beside the CSV, by gnuplot, with rows of numbers as $name in the script."""
        path = self.path(kind, 'svg')
        gnuplot(path, script, data, size)
        self.say(path.name)

    def save(self):
        """Write the tables, and say so."""
        for kind, rows in self.tables.items():
            path = self.path(kind, 'csv')
            write(path, rows)
            check(path)
            self.say(f'{path.name}: {len(rows)} rows')
