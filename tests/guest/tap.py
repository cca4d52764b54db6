"""Test Anything Protocol for a list of functions, each named for a fact.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import sys
import traceback


class Skip(Exception):
    """Raised by a test that cannot be run here, with the reason."""


def note(text):
    for line in str(text).splitlines():
        print(f'# {line}', flush=True)


def run(tests):
    """Run (name, function) pairs; exit 1 if one failed. `file.py PATTERN` runs a part."""
    wanted = sys.argv[1:]
    tests = [t for t in tests if not wanted or any(w in t[0] for w in wanted)]
    print(f'TAP version 13\n1..{len(tests)}', flush=True)
    failed = 0
    for number, (name, function) in enumerate(tests, 1):
        try:
            function()
            print(f'ok {number} - {name}', flush=True)
        except Skip as reason:
            print(f'ok {number} - {name} # SKIP {reason}', flush=True)
        except Exception:  # pylint: disable=broad-exception-caught
            failed += 1
            note(traceback.format_exc())
            print(f'not ok {number} - {name}', flush=True)
    sys.exit(1 if failed else 0)
