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


def main():
    with tempfile.TemporaryDirectory(prefix='bench-smoke-') as folder:
        tap.run([(f'{name} runs', smoke(name, folder)) for name in BENCHES])


if __name__ == '__main__':
    main()
