#!/usr/bin/python3
"""What a balloon without the report delay looks like, and must go on to look like.

usage: facts.py QEMU            the facts of this QEMU as JSON
       facts.py --record QEMU   write them to stock-facts.json beside this file

Facts, for each machine type and set of options: the device's lines of `info
qtree`, its PCI BARs with their sizes, the config size, and length and sum of
its section of the migration stream. `make stock-facts` builds QEMU without our
patches and records them.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import hashlib
import json
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'guest'))
from qmp import QMP  # pylint: disable=wrong-import-position

RECORD = Path(__file__).with_name('stock-facts.json')

# Every way in which a versioned machine type changes the balloon: 4.0's config
# size, 5.0's page-poison, 9.2's vectors; and the newest.
MACHINES = ['pc-i440fx-4.0', 'pc-i440fx-5.0', 'pc-i440fx-9.2', 'pc-i440fx-10.0',
            'pc-q35-4.0', 'pc-q35-4.0.1', 'pc-q35-5.0', 'pc-q35-9.2', 'pc-q35-10.0']
OPTIONS = ['', ',free-page-reporting=on', ',page-poison=off', ',disable-modern=on',
           ',disable-legacy=on', ',vectors=0',
           ',iothread=io,free-page-hint=on,free-page-reporting=on']


class VM:
    """A QEMU that runs no guest code, with a balloon in slot 4."""

    def __init__(self, qemu, machine, options, *more):
        qmp, child = socket.socketpair()
        self.process = subprocess.Popen(
            ['setpriv', '--pdeathsig', 'KILL', qemu, '-S', '-nodefaults', '-display', 'none',
             '-machine', machine, '-accel', 'tcg', '-m', '16', '-object', 'iothread,id=io',
             '-device', f'virtio-balloon-pci,id=balloon0,addr=4{options}',
             '-chardev', f'socket,id=qmp,fd={child.fileno()}',
             '-mon', 'chardev=qmp,mode=control', *more],
            pass_fds=[child.fileno()], stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)  # old machine types warn of their age
        child.close()
        self.qmp = QMP(qmp)

    def close(self):
        self.process.kill()
        self.process.wait()


def qtree(vm):
    """The lines of the balloon's proxy and device, indentation kept."""
    lines = vm.qmp.hmp('info qtree').replace('\r', '').splitlines()
    start = next(i for i, line in enumerate(lines) if 'dev: virtio-balloon-pci' in line)
    depth = len(lines[start]) - len(lines[start].lstrip())
    end = next((i for i in range(start + 1, len(lines))
                if len(lines[i]) - len(lines[i].lstrip()) <= depth), len(lines))
    return [line[depth:] for line in lines[start:end]]


def bars(vm):
    for bus in vm.qmp.command('query-pci'):
        for device in bus['devices']:
            if device['qdev_id'] == 'balloon0':
                return [[r['bar'], r['type'], r['size']] for r in device['regions']]
    raise AssertionError('no balloon on the PCI bus')


def stream(vm):
    """The balloon's section of the migration stream: its sum, and the config size in it."""
    with tempfile.NamedTemporaryFile() as file:
        vm.qmp.command('migrate', uri=f'file:{file.name}')
        deadline = time.monotonic() + 60
        while (state := vm.qmp.command('query-migrate').get('status')) != 'completed':
            if state == 'failed' or time.monotonic() > deadline:
                raise AssertionError(f'migration to a file: {state}')
            time.sleep(0.01)
        data = Path(file.name).read_bytes()
    # A full section: 04, id, length and name, instance, version, data, 7e, id.
    name = re.search(rb'\x04(....)(.)([\w:.-]+/virtio-balloon)', data, re.S)
    end = data.index(b'\x7e' + name.group(1), name.end())
    section = data[name.start(2):end]
    # virtio_save(): the config size; as many bytes, 00 or, for none, ff; the
    # number of queues (3 to 5); the size of the first one.
    [size] = {size for size in range(4, 64, 4) if re.search(
        rb'\0\0\0\x%02x[\0\xff]{%d}\0\0\0[\3-\5]\0\0(?!\0\0)' % (size, size), section)}
    return {'config_size': size, 'bytes': len(section),
            'sha256': hashlib.sha256(section).hexdigest()}


def facts(qemu):
    result = {}
    for machine in MACHINES:
        for options in OPTIONS:
            vm = VM(qemu, machine, options)
            try:
                result[machine + options] = {'qtree': qtree(vm), 'bars': bars(vm),
                                             'stream': stream(vm)}
            finally:
                vm.close()
    return result


def main():
    record = sys.argv[1:2] == ['--record']
    qemu = sys.argv[2 if record else 1]
    text = json.dumps(facts(qemu), indent=0) + '\n'
    if record:
        RECORD.write_text(text)
        print(f'facts.py: {RECORD.name} holds what {qemu} shows')
    else:
        print(text)


if __name__ == '__main__':
    main()
