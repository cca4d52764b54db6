"""Each patch of a kernel series builds and boots without those behind it.

    test_series.py [PART-OF-A-NAME]

REPORT_DELAY_SERIES names the series. Twenty minutes for both.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import subprocess

import tap
from guest import ROOT, Guest, wait_until

SERIES = os.environ.get('REPORT_DELAY_SERIES', '6.12')
NEGOTIATES = 'virtio_balloon-let-the-host-choose-the-report-delay'
MIB = 2**20
USED_MIB = 256


def patches():
    lines = (ROOT / f'guest-kernel/patches/{SERIES}/series').read_text().splitlines()
    return [line.partition('.patch')[0] for line in lines if not line.startswith('#')]


def build_and_boot(count):
    done = subprocess.run([ROOT / 'scripts/build', 'kernel-at', SERIES, str(count)], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    with Guest(series=f'{SERIES}-at', memory_mib=1024) as guest:
        # Until then the delay is 2 s.
        assert guest.delay()['negotiated'] == (NEGOTIATES in patches()[:count])
        base, peak = guest.use_and_free(USED_MIB)
        wait_until(lambda: peak - guest.rss() > 0.8 * (peak - base), 120, 'freed memory back')
        assert guest.delay()['reports'] > 0
        guest.qmp.command('balloon', value=900 * MIB)
        wait_until(lambda: guest.qmp.command('query-balloon')['actual'] == 900 * MIB, 60, '900 MiB')
        guest.reboot()


if __name__ == '__main__':
    tap.run([(f'{SERIES}, {count}: {name}', lambda count=count: build_and_boot(count))
             for count, name in enumerate(patches(), 1)])
