"""make install and make uninstall: what is installed runs, and all of it goes again.

Nothing is written outside of a DESTDIR in build/.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tests/guest'))
# pylint: disable=wrong-import-position
import tap
from guest import Guest

PREFIX = '/opt/report-delay'
work = None


def make(target, destdir, prefix=None, root=ROOT):
    command = ['make', '-s', '-C', str(root), target, f'DESTDIR={destdir}']
    env = {k: v for k, v in os.environ.items() if k not in ('DESTDIR', 'prefix', 'MAKEFLAGS', 'MAKELEVEL')}
    return subprocess.run(command + ([f'prefix={prefix}'] if prefix else []), env=env,
                          capture_output=True, text=True, check=False)


def works(done):
    assert done.returncode == 0, done.stdout + done.stderr


def fails(done, *words):
    assert done.returncode != 0, 'it went through'
    lines = [line for line in done.stderr.splitlines() if not line.startswith('make: ***')]
    assert len(lines) == 1, done.stderr
    for word in words:
        assert word in lines[0], f"'{word}' is not in: {lines[0]}"


def tree(folder):
    """All that is below a folder, with the content of small files."""
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() and p.stat().st_size < 10000
            else p.is_dir() for p in folder.rglob('*')}


def runs_there(destdir, prefix):
    """The installed QEMU says its version, and a guest boots from it, firmware found."""
    qemu = destdir / prefix.lstrip('/') / 'bin/qemu-system-x86_64'
    said = subprocess.run([qemu, '--version'], capture_output=True, text=True, check=True).stdout
    assert said.startswith('QEMU emulator version'), said
    with Guest(qemu=qemu) as guest:
        guest.wait_applied(2000)


def programs_of(unit):
    """The paths that a unit starts and stops with."""
    lines = [line.partition('=')[2].lstrip('-') for line in unit.read_text().splitlines()
             if line.startswith('Exec') and '$MAINPID' not in line]
    return [shlex.split(line)[0] for line in lines]


def unit_starts_what_is_there(destdir):
    """The installed unit names balloon-steer where it was installed; it runs, and finds its module."""
    systemd = destdir / 'usr/local/lib'
    assert (systemd / 'tmpfiles.d/balloon-steer.conf').exists(), tree(systemd)
    programs = programs_of(systemd / 'systemd/system/balloon-steer.service')
    assert len(programs) == 2 and len(set(programs)) == 1, programs
    program = destdir / programs[0].lstrip('/')
    config = work / 'steer.conf'
    config.write_text(f'[daemon]\nlibvirt-uri = test:///default\nlock-file = {work}/lock\n'
                      f'control-socket = {work}/no-folder/control\n')
    subprocess.run([program, 'check-config', config], check=True, capture_output=True)
    if list(destdir.rglob('backend-libvirt.so')):
        # It gets as far as to the control socket: the module is loaded before.
        done = subprocess.run([program, 'run', '--config', config], capture_output=True, text=True,
                              timeout=60, check=False)
        assert done.returncode == 1 and 'no-folder' in done.stderr, done.stderr


def test_default_prefix():
    destdir = work / 'default'
    works(make('install', destdir))
    runs_there(destdir, PREFIX)
    unit_starts_what_is_there(destdir)
    works(make('install', destdir))  # again: an upgrade
    works(make('uninstall', destdir))
    assert not destdir.exists(), list(destdir.rglob('*'))


def test_other_prefix():
    destdir = work / 'other'
    works(make('install', destdir, '/srv/another place'))
    runs_there(destdir, '/srv/another place')
    unit_starts_what_is_there(destdir)
    works(make('uninstall', destdir, '/srv/another place'))
    assert not destdir.exists(), list(destdir.rglob('*'))


def test_others_files_stay():
    destdir = work / 'shared'
    (destdir / 'opt/report-delay/bin').mkdir(parents=True)
    (destdir / 'opt/report-delay/bin/mine').write_text('mine')
    (destdir / 'opt/report-delay/empty').mkdir()
    before = tree(destdir)
    works(make('install', destdir))
    assert len(tree(destdir)) > len(before)
    (destdir / 'opt/report-delay/share/new').write_text('new')
    works(make('uninstall', destdir))
    after = tree(destdir)
    assert after.pop('opt/report-delay/share/new') and after.pop('opt/report-delay/share')
    assert after == before, after


def test_another_qemu_is_not_overwritten():
    destdir = work / 'taken'
    (destdir / 'usr/local/bin').mkdir(parents=True)
    (destdir / 'usr/local/bin/qemu-img').write_text('somebody\'s')
    before = tree(destdir)
    fails(make('install', destdir, '/usr/local'), 'usr/local/bin/qemu-img', 'choose another')
    assert tree(destdir) == before
    for prefix in ('/usr', '/usr/', '/', '//usr', 'relative', '/usr/../usr'):
        fails(make('install', destdir, prefix), 'prefix', PREFIX)
    assert tree(destdir) == before


def test_nothing_there():
    fails(make('uninstall', work / 'nothing'), 'nothing to uninstall')


def test_not_built():
    clone = work / 'clone'
    for name in ('Makefile', 'scripts/install', 'scripts/common.py'):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, clone / name)
    fails(make('install', work / 'not-built', root=clone), 'not built', 'make qemu')
    assert not (work / 'not-built').exists()


def unit_with(program):
    return (f'[Service]\nExecStart={program} run\nExecReload=/bin/kill -HUP $MAINPID\n'
            f'ExecStopPost=-{program} withdraw --all\n')


def test_our_own_programs():
    """What this project's meson.build installs goes along, in whatever prefix it was set up."""
    clone = work / 'own'
    for name in ('Makefile', 'scripts/install', 'scripts/common.py'):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, clone / name)
    for build, prefix, program, target in (
            ('build/qemu', PREFIX, 'qemu-system-x86_64', 'bin/qemu-system-x86_64'),
            ('build', '/usr/local', 'steer', 'bin/balloon-steer')):
        info = clone / build / 'meson-info'
        info.mkdir(parents=True)
        source = clone / build / program
        source.write_text('#!/bin/sh\n')
        source.chmod(0o700)
        (info / 'intro-buildoptions.json').write_text(
            json.dumps([{'name': 'prefix', 'value': prefix}]))
        installed = {str(source): f'{prefix}/{target}'}
        if build == 'build':
            unit = clone / build / 'steer.service'
            unit.write_text(unit_with('/usr/local/bin/balloon-steer'))
            installed[str(unit)] = '/lib/systemd/system/steer.service'
        (info / 'intro-installed.json').write_text(json.dumps(installed))
    destdir = work / 'own-dest'
    works(make('install', destdir, root=clone))
    steer = destdir / 'opt/report-delay/bin/balloon-steer'
    assert steer.stat().st_mode & 0o7777 == 0o755
    unit = destdir / 'usr/local/lib/systemd/system/steer.service'
    assert unit.read_text() == unit_with('/opt/report-delay/bin/balloon-steer')
    for prefix, path in (('/srv/another place', '"/srv/another place/bin/balloon-steer"'),
                         ('/srv/100%/"x\\', '"/srv/100%%/\\"x\\\\/bin/balloon-steer"')):
        works(make('install', work / 'odd', prefix, root=clone))
        assert (work / 'odd/usr/local/lib/systemd/system/steer.service').read_text() == unit_with(path)
        works(make('uninstall', work / 'odd', prefix, root=clone))
    # The next version has it no more: then neither has the installation.
    (clone / 'build/meson-info/intro-installed.json').write_text('{}')
    works(make('install', destdir, root=clone))
    assert not steer.exists() and (steer.parent / 'qemu-system-x86_64').exists()
    works(make('uninstall', destdir, root=clone))
    assert not destdir.exists()


if __name__ == '__main__':
    # Not in /tmp, which may be small and in memory.
    with tempfile.TemporaryDirectory(dir=ROOT / 'build') as folder:
        work = Path(folder)
        tap.run([
            ('installed QEMU boots a guest; uninstalled, nothing is left', test_default_prefix),
            ('another prefix, with a space in it', test_other_prefix),
            ('what others put there stays', test_others_files_stay),
            ('another QEMU is not overwritten', test_another_qemu_is_not_overwritten),
            ('uninstall where nothing is', test_nothing_there),
            ('install before make', test_not_built),
            ('this project\'s programs go along', test_our_own_programs),
        ])
