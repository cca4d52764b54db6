"""The kernel package that `make guest-deb` has built: it boots, negotiates, obeys.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import subprocess
import sys
import tempfile
from pathlib import Path

import tap
from guest import BUILD, Guest, wait_until

MIB = 2**20
USED_MIB = 512


def lay_out(package, folder):
    """build/guest/deb/, as Guest wants it. The driver is a module; what it needs is built in."""
    subprocess.run(['dpkg-deb', '-x', package, folder], check=True)
    out = BUILD / 'guest/deb'
    out.mkdir(parents=True, exist_ok=True)
    kernel, = (folder / 'boot').glob('vmlinuz-*')
    (out / 'bzImage').write_bytes(kernel.read_bytes())
    driver, = (folder / 'lib/modules').rglob('virtio_balloon.ko.xz')
    root = folder / 'root'
    (root / 'modules').mkdir(parents=True)
    with open(root / 'modules/virtio_balloon.ko', 'wb') as file:
        subprocess.run(['xz', '-dc', driver], check=True, stdout=file)
    with open(out / 'modules.cpio', 'wb') as file:
        subprocess.run('find . | cpio --quiet -o -H newc -R 0:0', shell=True, cwd=root, check=True,
                       stdout=file)


def test_package():
    with Guest(series='deb', memory_mib=2048) as guest:
        tap.note(f'kernel {guest.release}')
        assert guest.release.endswith('-report-delay-cloud-amd64'), guest.release
        wait_until(lambda: guest.delay()['negotiated'], 30, 'the feature negotiated')
        feature = guest.run('cut -c22 /sys/bus/virtio/drivers/virtio_balloon/virtio*/features')[1].strip()
        assert feature == '1', feature
        guest.settle()
        guest.set_delay(60000)
        assert guest.read('/proc/sys/vm/page_reporting_delay_ms') == '60000'
        base, peak = guest.use_and_free(USED_MIB)
        assert peak - guest.rss() < 0.1 * (peak - base), 'it is back though the delay is a minute'
        guest.set_delay(0)
        wait_until(lambda: peak - guest.rss() > 0.9 * (peak - base), 10, '90 % back')


def main():
    packages = sorted((BUILD / 'guest-deb').glob('linux-image-*.deb'))
    if len(packages) != 1:
        sys.exit('test_guest_deb: no package in build/guest-deb: run `make guest-deb`')
    with tempfile.TemporaryDirectory() as folder:
        lay_out(packages[0], Path(folder))
    tap.run([(f'{packages[0].name} boots and is steered', test_package)])


if __name__ == '__main__':
    main()
