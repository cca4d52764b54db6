"""With report-delay off a balloon is stock's; with bad properties it does not start.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import subprocess
import sys
from pathlib import Path

import facts
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'guest'))
import tap  # pylint: disable=wrong-import-position

QEMU = Path(__file__).resolve().parents[2] / 'build/qemu/qemu-system-x86_64'
# The one line that may be new: the property itself, at its default.
NEW_LINE = '      report-delay = false'


def same(section):
    def test():
        stock = json.loads(facts.RECORD.read_text())
        ours = OURS or OURS.update(facts.facts(QEMU)) or OURS
        assert list(ours) == list(stock)
        for name, fact in ours.items():
            got, wanted = fact[section], stock[name][section]
            if section == 'qtree':
                assert NEW_LINE in got, f'{name}: no line {NEW_LINE!r}'
                got = [line for line in got if line != NEW_LINE]
            assert got == wanted, f'{name}: {section} is {got}, stock has {wanted}'
    return test


OURS = {}


def test_facts_can_differ():
    """The comparison sees the feature when it is on."""
    vm = facts.VM(QEMU, 'pc-q35-10.0', ',free-page-reporting=on,report-delay=on')
    try:
        stock = json.loads(facts.RECORD.read_text())['pc-q35-10.0,free-page-reporting=on']
        stream = facts.stream(vm)
        assert stream['config_size'] == 24 and stock['stream']['config_size'] == 16, stream
        assert stream['sha256'] != stock['stream']['sha256']
    finally:
        vm.close()


def refused(options, *words):
    def test():
        done = subprocess.run([QEMU, '-S', '-nodefaults', '-display', 'none', '-device',
                               f'virtio-balloon-pci,{options}'], capture_output=True, text=True,
                              timeout=60, check=False)
        assert done.returncode == 1, done
        for word in words:
            assert word in done.stderr, done.stderr
        assert len(done.stderr.strip().splitlines()) <= 2, done.stderr
    return test


if __name__ == '__main__':
    tap.run([
        ('info qtree is stock\'s but for the property', same('qtree')),
        ('PCI BARs are stock\'s', same('bars')),
        ('config size and migration stream are stock\'s', same('stream')),
        ('and the comparison would see the feature', test_facts_can_differ),
        ('report-delay=on without free-page-reporting=on does not start',
         refused('report-delay=on', 'report-delay=on', 'free-page-reporting=on')),
        ('report-delay-ms without report-delay=on does not start',
         refused('free-page-reporting=on,report-delay-ms=5', 'report-delay-ms', 'report-delay=on')),
        ('report-delay-ms out of range does not start',
         refused('free-page-reporting=on,report-delay=on,report-delay-ms=600001',
                 'report-delay-ms', '600001', '0 to 600000')),
        ('report-delay-ms that is no number does not start',
         refused('free-page-reporting=on,report-delay=on,report-delay-ms=x', 'report-delay-ms')),
    ])
