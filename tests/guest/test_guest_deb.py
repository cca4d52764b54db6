"""The kernel package that `make guest-deb` has built: it boots, negotiates, obeys.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import subprocess
import sys
import tempfile
from pathlib import Path

import tap
from guest import BUILD, Guest, wait_until

WANTED = ('virtio_pci', 'virtio_balloon')
MIB = 2**20
USED_MIB = 512


def unpack(package, folder):
    """The package's kernel, and the modules the guest needs in the order of their loading."""
    subprocess.run(['dpkg-deb', '-x', package, folder], check=True)
    paths = {path.name.partition('.')[0].replace('-', '_'): path
             for path in (folder / 'lib/modules').rglob('*.ko*')}
    order = []

    def need(name):
        # What is not there is built in.
        if name in order or name not in paths:
            return
        depends = subprocess.run(['modinfo', '-F', 'depends', paths[name]], check=True, text=True,
                                 stdout=subprocess.PIPE).stdout.strip()
        for other in filter(None, depends.split(',')):
            need(other.replace('-', '_'))
        order.append(name)
    for name in WANTED:
        need(name)
    assert 'virtio_balloon' in order, sorted(paths)
    return next((folder / 'boot').glob('vmlinuz-*')), [(name, paths[name]) for name in order]


def lay_out(package, folder):
    """build/guest/deb/, as Guest wants it; the modules' names."""
    kernel, modules = unpack(package, folder)
    out = BUILD / 'guest/deb'
    out.mkdir(parents=True, exist_ok=True)
    (out / 'bzImage').write_bytes(kernel.read_bytes())
    root = folder / 'root'
    (root / 'modules').mkdir(parents=True)
    for name, path in modules:
        data = path.read_bytes()
        if path.suffix == '.xz':
            data = subprocess.run(['xz', '-dc'], input=data, check=True, stdout=subprocess.PIPE).stdout
        (root / f'modules/{name}.ko').write_bytes(data)
    with open(out / 'modules.cpio', 'wb') as file:
        subprocess.run('find . | cpio --quiet -o -H newc -R 0:0', shell=True, cwd=root, check=True,
                       stdout=file)
    return [name for name, _ in modules]


class PackagedGuest(Guest):
    """A guest with the package's kernel."""
    modules_in_order = ()

    def load_driver(self):
        for name in self.modules_in_order:
            self.run(f'insmod /modules/{name}.ko')


def test_package():
    with PackagedGuest(series='deb', memory_mib=2048) as guest:
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
        PackagedGuest.modules_in_order = lay_out(packages[0], Path(folder))
    tap.run([(f'{packages[0].name} boots and is steered', test_package)])


if __name__ == '__main__':
    main()
