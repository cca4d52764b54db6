"""The kernel's own tests of page reporting: boot it and hand its results on.

REPORT_DELAY_SERIES names the kernel.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import re

import tap
from guest import Guest

SERIES = os.environ.get('REPORT_DELAY_SERIES', '6.12')


def leaves(lines):
    """[(passed, name, what was said)] of the KTAP in lines: a case, or each of its parameters."""
    found, said, inner = [], [], ''
    for line in lines:
        match = re.match(r'( *)(not )?ok \d+ (.*?)(?: # SKIP (.*))?$', line)
        if not match:
            if subtest := re.match(r' {8}# Subtest: (.*)', line):
                inner = subtest.group(1)
            said.append(line.strip())
            continue
        depth, bad, name, skip = len(match.group(1)), match.group(2), match.group(3), match.group(4)
        said = [text for text in said if re.search(r'EXPECT|ASSERT|Expected|==|But', text)]
        if depth == 8:
            found.append((not bad and skip is None, f'{inner}: {name}', said))
        elif depth == 4 and name != inner:
            found.append((not bad and skip is None, name, said + ([skip] if skip else [])))
        said = []
    return found


def main():
    with Guest(series=SERIES, device=None, append='log_buf_len=1M kunit.enable=1') as guest:
        lines = [re.sub(r'^\[ *[\d.]+\] ', '', line) for line in
                 guest.run('dmesg')[1].splitlines()]
        results = leaves(lines)
        assert results, 'the kernel has run no test'

        def result(passed, said):
            assert passed, '\n'.join(said)
        tap.run([(name.removeprefix('page_reporting_test_').replace('_', ' '),
                  lambda passed=passed, said=said: result(passed, said))
                 for passed, name, said in results])


if __name__ == '__main__':
    main()
