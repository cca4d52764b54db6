"""The kernel series compiled in other shapes: architectures, options, sparse.

    test_shapes.py [PART-OF-A-NAME]

Only the objects that the series touches, and what uses page reporting, are
compiled, each warning an error. REPORT_DELAY_SERIES names the series.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import re
import subprocess
from pathlib import Path

import tap

ROOT = Path(__file__).resolve().parent.parent.parent
SERIES = os.environ.get('REPORT_DELAY_SERIES', '6.12')
SOURCE = ROOT / f'build/src/linux-{SERIES}'
CONFIG = ROOT / 'guest-kernel/config'

MM = ['mm/page_reporting.o', 'mm/page_alloc.o']
BALLOON = ['drivers/virtio/virtio_balloon.o']
VIRTIO = 'VIRTIO_MENU=y PCI=y VIRTIO_PCI=y VIRTIO_BALLOON=y PROC_FS=y SYSCTL=y'
X86 = f'{VIRTIO} 64BIT=y SMP=y'
# name: (ARCH, compiler prefix, options on top of allnoconfig, objects)
SHAPES = {
    'arm64, 4K pages': ('arm64', 'aarch64-linux-gnu-', f'{VIRTIO} ARM64_4K_PAGES=y', MM + BALLOON),
    'arm64, 64K pages': ('arm64', 'aarch64-linux-gnu-', f'{VIRTIO} ARM64_64K_PAGES=y', MM + BALLOON),
    's390x': ('s390', 's390x-linux-gnu-',
              'VIRTIO_MENU=y CCW=y S390_GUEST=y VIRTIO_BALLOON=y PROC_FS=y SYSCTL=y', MM + BALLOON),
    'i386': ('i386', 'i686-linux-gnu-', VIRTIO, MM + BALLOON),
    'x86-64, the driver a module': ('x86_64', '', f'{X86} MODULES=y VIRTIO_BALLOON=m', MM + BALLOON),
    'x86-64, KUnit': ('x86_64', '', f'{X86} KUNIT=y PAGE_REPORTING_KUNIT_TEST=y '
                      'VIRTIO_BALLOON_KUNIT_TEST=y',
                      MM + BALLOON + ['drivers/virtio/virtio_balloon_kunit.o']),
    'x86-64, Hyper-V': ('x86_64', '', f'{X86} HYPERVISOR_GUEST=y PARAVIRT=y ACPI=y X86_LOCAL_APIC=y '
                        'HYPERV=y HYPERV_BALLOON=y', MM + ['drivers/hv/hv_balloon.o']),
    'SYSCTL=n': ('x86_64', '', X86.replace('SYSCTL=y', 'EXPERT=y SYSCTL=n'),
                 MM + BALLOON),
    'PAGE_REPORTING=n': ('x86_64', '', '64BIT=y SMP=y PAGE_REPORTING=n', ['mm/page_alloc.o']),
    'PM_SLEEP=n': ('x86_64', '', f'{X86} SUSPEND=n HIBERNATION=n PM_SLEEP=n', MM + BALLOON),
    'PM_SLEEP=y': ('x86_64', '', f'{X86} SUSPEND=y PM_SLEEP=y', MM + BALLOON),
    'SMP=n': ('x86_64', '', X86.replace('SMP=y', 'SMP=n'), MM + BALLOON),
    'PREEMPT_RT': ('x86_64', '', f'{X86} EXPERT=y PREEMPT_RT=y', MM + BALLOON),
}
# What a series calls otherwise, and what it has split off.
RENAMED = {'6.12': {'SYSCTL': 'PROC_SYSCTL'}, '7.3': {}}
ALSO = {'7.3': {'HYPERV': 'HYPERV_VMBUS'}, '6.12': {}}


def make(name, arch, prefix, *words):
    obj = f'obj-shape-{re.sub(r"[^a-z0-9]+", "-", name.lower())}'
    command = ['make', '-C', SOURCE, f'O={obj}', f'ARCH={arch}', f'CROSS_COMPILE={prefix}',
               f'-j{os.cpu_count()}', '-s', 'LOCALVERSION=', *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    return done, SOURCE / obj


def configure(name):
    arch, prefix, options, _ = SHAPES[name]
    wanted = dict(option.split('=') for option in options.split()) | {'WERROR': 'y'}
    wanted = {RENAMED[SERIES].get(key, key): value for key, value in wanted.items()}
    wanted |= {more: wanted[key] for key, more in ALSO[SERIES].items() if key in wanted}
    file = ROOT / f'build/check/shape-{SERIES}.config'
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(''.join(f'CONFIG_{key}={value}\n' for key, value in wanted.items()))
    done, obj = make(name, arch, prefix, f'KCONFIG_ALLCONFIG={file}', 'allnoconfig')
    assert done.returncode == 0, done.stdout
    have = dict(re.findall(r'^CONFIG_(\w+)=(.*)$', (obj / '.config').read_text(), re.M))
    for key, value in wanted.items():
        assert have.get(key, 'n') == value, f'{key}={value} was asked for, it is {have.get(key, "n")}'


def compile_shape(name):
    arch, prefix, _, objects = SHAPES[name]
    configure(name)
    done, obj = make(name, arch, prefix, 'prepare')
    assert done.returncode == 0, done.stdout[-3000:]
    for path in objects:  # anew, or a warning that was let pass once would be gone
        (obj / path).unlink(missing_ok=True)
    done, obj = make(name, arch, prefix, *objects)
    assert done.returncode == 0 and 'warning' not in done.stdout, done.stdout[-3000:]
    for path in objects:
        assert (obj / path).exists(), path


def sparse():
    """Endianness, contexts and address spaces of the files that we change or bring."""
    name = 'x86-64, KUnit'
    arch, prefix, _, _ = SHAPES[name]
    configure(name)
    make(name, arch, prefix, 'prepare')
    done, _ = make(name, arch, prefix, 'C=2', 'CF=-D__CHECK_ENDIAN__',
                   'mm/page_reporting.o', 'drivers/virtio/virtio_balloon.o',
                   'drivers/virtio/virtio_balloon_kunit.o')
    assert done.returncode == 0, done.stdout[-3000:]
    # Headers have remarks of their own, which stock has, too.
    ours = [line for line in done.stdout.splitlines()
            if re.search(r'(page_reporting|virtio_balloon(_kunit)?)\.c:\d+:\d+: (warning|error)', line)]
    assert not ours, '\n'.join(ours)


if __name__ == '__main__':
    tap.run([(f'{SERIES}: {name}', lambda name=name: compile_shape(name)) for name in SHAPES]
            + [(f'{SERIES}: sparse', sparse)])
