"""Each benchmark runs, at a size that measures nothing.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / 'tests/guest'))
import tap  # pylint: disable=wrong-import-position


def smoke(name):
    def test():
        done = subprocess.run([sys.executable, HERE / f'{name}.py', '--smoke'], text=True,
                              capture_output=True, timeout=100, check=False)
        assert done.returncode == 0, done.stderr
        assert 'median' in done.stdout, done.stdout
    return test


if __name__ == '__main__':
    tap.run([(f'{name} runs', smoke(name)) for name in ('device_cost',)])
