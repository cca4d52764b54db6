"""Each benchmark runs, at a size that measures nothing, and the page is made of what it writes.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from record import ROOT, check
import tap

HERE = Path(__file__).resolve().parent
BENCHES = ('device_cost', 'reclaim', 'churn', 'latency', 'overhead', 'memhog', 'scale', 'nogain')


def smoke(name, folder):
    def test():
        env = dict(os.environ, REPORT_DELAY_RESULTS=folder)
        done = subprocess.run([sys.executable, HERE / f'{name}.py', '--smoke'], text=True, env=env,
                              cwd=ROOT, capture_output=True, timeout=240, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        written = list(Path(folder).glob(f'????-??-??-{name.replace("_", "-")}.csv'))
        assert len(written) == 1, f'{done.stdout}, {os.listdir(folder)}'
        for path in Path(folder).glob(f'????-??-??-{name.replace("_", "-")}*.csv'):
            check(path)
        assert 'median' in done.stdout, done.stdout
        for line in done.stdout.splitlines():
            if 'median' in line:
                tap.note(line)
    return test


def page(*options):
    return subprocess.run([sys.executable, HERE / 'page.py', *options], text=True, cwd=ROOT,
                          capture_output=True, check=False)


def test_page_is_made():
    """The committed page is what the committed CSVs give."""
    done = page('--check')
    assert done.returncode == 0, done.stderr


def page_of(folder):
    """Of the smoke runs' CSVs, no section is left out for anything but that it has none."""
    def test():
        written = {path.name[len('yyyy-mm-dd-'):-len('.csv')] for path in Path(folder).glob('*.csv')}
        done = page('--results', folder, '--output', f'{folder}/page.rst')
        assert done.returncode == 0, done.stderr
        absent = {line.split()[-1] for line in done.stdout.splitlines() if 'not measured' in line}
        assert written and not absent & written, absent & written
        assert 'list-table' in Path(folder, 'page.rst').read_text(encoding='utf-8')
    return test


def main():
    with tempfile.TemporaryDirectory(prefix='bench-smoke-') as folder:
        tap.run([('docs/benchmarks.rst is made of bench/results', test_page_is_made)] +
                [(f'{name} runs', smoke(name, folder)) for name in BENCHES] +
                [('a page is made of what they wrote', page_of(folder))])


if __name__ == '__main__':
    main()
