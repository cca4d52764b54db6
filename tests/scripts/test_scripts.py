"""What scripts/ do when something is wrong: one line that says what to do, and
nothing half-done that the next run takes for done.

apt is played by a fake: no network, and every answer of a mirror can be had.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tests/guest'))
import tap  # pylint: disable=wrong-import-position
from guest import wait_until  # pylint: disable=wrong-import-position

FAKE_APT = r'''#!/bin/sh
# A mirror with one package, pins-test, at $FAKE_VERSION.
case "$*" in
*indextargets*) echo "http://mirror.invalid/debian $(. /etc/os-release; echo "$VERSION_CODENAME")" ;;
*update*) [ -z "$FAKE_OFFLINE" ] || { echo "E: Failed to fetch" >&2; exit 100; } ;;
*madison*) echo "pins-test | $FAKE_VERSION | http://mirror.invalid trixie/main amd64 Packages" ;;
*download*) [ -z "$FAKE_CUT" ] || { printf half >"pins-test_${FAKE_VERSION}_all.deb"; exit 100; }
    printf 'the package' >"pins-test_${FAKE_VERSION}_all.deb" ;;
*) echo "fake apt: $*" >&2; exit 1 ;;
esac
'''
PINS = '''
[pins]
what = "a test"
kind = "binary"
package = "pins-test"
suites = ["trixie"]
series = "1.2"
floor = "1.2.3"
version = "1.2.5-1"
[pins.sha256]
"pins-test_1.2.5-1_all.deb" = "SUM"
'''

work = None


class Clone:
    """A copy of the tracked files, with a cache of its own and a fake apt."""

    def __init__(self, name, pins=True):
        self.root = work / name
        files = subprocess.run(['git', 'ls-files', '-z'], cwd=ROOT, capture_output=True,
                               check=True).stdout.decode().split('\0')[:-1]
        for file in files:
            if (ROOT / file).exists():
                (self.root / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / file, self.root / file)
        self.bin = self.root / 'fake-bin'
        self.bin.mkdir()
        self.env = dict(os.environ, FAKE_VERSION='1.2.5-1')
        for variable in ('QEMU_SRC', 'LINUX_SRC'):
            self.env.pop(variable, None)
        if pins:
            for name_ in ('apt-get', 'apt-cache'):
                (self.bin / name_).write_text(FAKE_APT)
                (self.bin / name_).chmod(0o755)
            self.pin(self.sum())
            self.env.update(XDG_CACHE_HOME=str(self.root / 'cache'),
                            PATH=f'{self.bin}:{os.environ["PATH"]}')

    @staticmethod
    def sum():
        return subprocess.run(['sha256sum'], input=b'the package', capture_output=True,
                              check=True).stdout.decode().split()[0]

    def pin(self, digest):
        (self.root / 'upstreams.toml').write_text(PINS.replace('SUM', digest))

    def run(self, script, *args, **env):
        done = subprocess.run([self.root / 'scripts' / script, *args], env=self.env | env,
                              capture_output=True, text=True, timeout=300, check=False)
        return done.returncode, done.stdout + done.stderr


def fails(result, *words):
    """It failed, and its last line says these words."""
    status, output = result
    last = output.strip().splitlines()[-1]
    assert status != 0, output
    assert 'Traceback' not in output, output
    for word in words:
        assert word in last, f"'{word}' is not in: {output}"


def works(result, *words):
    status, output = result
    assert status == 0, output
    for word in words:
        assert word in output, f"'{word}' is not in: {output}"
    return output


def test_pinned():
    clone = Clone('pinned')
    works(clone.run('fetch', 'pins'), '1.2.5-1 is here and verified')
    # Nothing is asked of the mirror again.
    works(clone.run('fetch', 'pins', FAKE_OFFLINE='1'), 'is here and verified')
    fails(clone.run('fetch', 'other'), "'other'", 'pins')


def test_wrong_sum():
    clone = Clone('sum')
    clone.pin('0' * 64)
    fails(clone.run('fetch', 'pins'), 'sha256', '0' * 64, 'run again')
    assert not list((clone.root / 'cache/report-delay/downloads/pins').glob('*.deb'))
    fails(clone.run('fetch', 'pins'), 'sha256')


def test_damaged_cache():
    clone = Clone('damaged')
    works(clone.run('fetch', 'pins'))
    [deb] = (clone.root / 'cache/report-delay/downloads/pins').glob('*.deb')
    deb.write_text('THE PACKAGE')
    works(clone.run('fetch', 'pins'), 'damaged, fetching it again', 'is here and verified')
    assert deb.read_text() == 'the package'


def test_newer_point_release():
    clone = Clone('newer')
    works(clone.run('fetch', 'pins', FAKE_VERSION='1.2.10-1'), 'notice:', 'taking 1.2.10-1')
    # A pin that is moved on asks anew.
    clone.pin(clone.sum())
    text = (clone.root / 'upstreams.toml').read_text().replace('1.2.5-1', '1.2.11-1')
    (clone.root / 'upstreams.toml').write_text(text)
    works(clone.run('fetch', 'pins', FAKE_VERSION='1.2.11-1'), '1.2.11-1 is here')


def test_no_usable_version():
    clone = Clone('series')
    fails(clone.run('fetch', 'pins', FAKE_VERSION='1.3.0-1'), '1.2.x', '1.3.0-1', 'upstreams.toml')
    fails(clone.run('fetch', 'pins', FAKE_VERSION='1.2.2-1'), 'from 1.2.3 on')


def test_no_network():
    clone = Clone('offline')
    fails(clone.run('fetch', 'pins', FAKE_OFFLINE='1'), 'mirror.invalid', 'check the network')
    works(clone.run('fetch', 'pins'))


def test_cut_download():
    clone = Clone('cut')
    fails(clone.run('fetch', 'pins', FAKE_CUT='1'), 'goes on where it stopped')
    works(clone.run('fetch', 'pins'), 'is here and verified')


def test_missing_tool():
    clone = Clone('tool', pins=False)
    only = work / 'only-python'
    only.mkdir()
    fails(clone.run('tree', 'prepare', 'qemu', PATH=str(only)), 'is missing', 'make setup')


def test_full_disk():
    done = subprocess.run([sys.executable, '-c', 'import common, pathlib; '
                           'common.need_space(pathlib.Path("/tmp"), 10**9, "unpacking")'],
                          cwd=ROOT / 'scripts', capture_output=True, text=True, check=False)
    fails((done.returncode, done.stderr), 'GiB are free', 'make room')


def test_no_memory():
    done = subprocess.run([ROOT / 'scripts/demo'], env=dict(os.environ, DEMO_MIB='99999999'),
                          capture_output=True, text=True, check=False)
    fails((done.returncode, done.stdout + done.stderr), 'MiB of free memory', 'this machine has')


def linux_tree(name):
    """A user's 6.12 tree, of just the files that the series touches."""
    source = work / name
    repo = ROOT / 'build/tree/linux-6.12'
    source.mkdir()
    archive = subprocess.run(['git', '-C', repo, 'archive', 'upstream'], capture_output=True,
                             check=True).stdout
    subprocess.run(['tar', '-x', '-C', source], input=archive, check=True)
    (source / 'Makefile').write_text('VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 200\n')
    return source


def test_users_tree():
    clone = Clone('users', pins=False)
    source = linux_tree('linux-good')
    works(clone.run('tree', 'prepare', 'linux-6.12', LINUX_SRC=str(source)), 'patches applied')
    patched = (clone.root / 'build/src/linux-6.12/mm/page_reporting.c').read_text()
    assert 'page_reporting_delay_ms' in patched
    assert 'page_reporting_delay_ms' not in (source / 'mm/page_reporting.c').read_text()
    works(clone.run('tree', 'check', 'linux-6.12', LINUX_SRC=str(source)), 'notice:')


def test_users_tree_that_does_not_match():
    clone = Clone('mismatch', pins=False)
    source = linux_tree('linux-bad')
    file = source / 'mm/page_reporting.c'
    file.write_text(file.read_text().replace('2 * HZ', '3 * HZ'))
    fails(clone.run('tree', 'prepare', 'linux-6.12', LINUX_SRC=str(source)),
          'make-the-report-delay-a-parameter.patch does not apply', str(source), '6.12.200',
          'mm/page_reporting.c')
    # Not taken for done by the next run.
    fails(clone.run('tree', 'prepare', 'linux-6.12', LINUX_SRC=str(source)), 'does not apply')
    (source / 'Makefile').write_text('VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 50\n')
    fails(clone.run('tree', 'prepare', 'linux-6.12', LINUX_SRC=str(source)), '6.12.50', '6.12.103')
    fails(clone.run('tree', 'prepare', 'linux-6.12', LINUX_SRC=str(work)), 'no Linux source tree')
    fails(clone.run('tree', 'prepare', 'qemu', QEMU_SRC=str(work)), 'no QEMU source tree')


def test_users_tree_that_is_mended():
    clone = Clone('mended', pins=False)
    source = linux_tree('linux-mended')
    file = source / 'mm/page_reporting.c'
    good = file.read_text()
    file.write_text(good.replace('2 * HZ', '3 * HZ'))
    fails(clone.run('tree', 'prepare', 'linux-6.12', LINUX_SRC=str(source)), 'does not apply')
    file.write_text(good)
    works(clone.run('tree', 'prepare', 'linux-6.12', LINUX_SRC=str(source)), 'patches applied')
    (source / 'Makefile').write_text('VERSION = 6\nPATCHLEVEL = 13\nSUBLEVEL = 1\n')
    fails(clone.run('tree', 'prepare', 'linux-6.12', LINUX_SRC=str(source)), '6.13.1', 'linux-6.12')


def test_work_is_kept():
    clone = Clone('kept', pins=False)
    source = linux_tree('linux-kept')
    repo = clone.root / 'build/tree/linux-6.12'
    works(clone.run('tree', 'prepare', 'linux-6.12', LINUX_SRC=str(source)))
    (repo / 'mm/page_reporting.c').write_text('work')
    other = linux_tree('linux-other')
    fails(clone.run('tree', 'prepare', 'linux-6.12', LINUX_SRC=str(other)), 'has work')
    # Deleted, as that says, it is made anew.
    shutil.rmtree(repo)
    works(clone.run('tree', 'prepare', 'linux-6.12', LINUX_SRC=str(source)), 'patches applied')
    # Patches that have changed are not overwritten by what was made of the old ones.
    patch = next((clone.root / 'guest-kernel/patches/6.12').glob('*.patch'))
    patch.write_text(patch.read_text().replace('Subject: ', 'Subject:  '))
    fails(clone.run('tree', 'refresh', 'linux-6.12'), 'has changed since')


def test_spaces_and_relative_cache():
    clone = Clone('with a space', pins=False)
    fails(clone.run('build', 'qemu'), 'has a space', 'clone elsewhere')
    done = subprocess.run([sys.executable, '-c', 'import common; print(common.CACHE)'],
                          cwd=ROOT / 'scripts', env=dict(os.environ, XDG_CACHE_HOME='relative'),
                          capture_output=True, text=True, check=True)
    assert done.stdout.startswith('/'), done.stdout


def test_cut_unpacking():
    clone = Clone('unpack', pins=False)
    left = clone.root / 'build/src/linux-6.12.new'
    left.mkdir(parents=True)
    (left / 'junk').write_text('half of an earlier run')
    works(clone.run('tree', 'prepare', 'linux-6.12', LINUX_SRC=str(linux_tree('linux-cut'))))
    assert not (clone.root / 'build/src/linux-6.12/junk').exists()


def test_round_trip_sees_a_byte():
    clone = Clone('bytes', pins=False)
    if 'notice:' in works(clone.run('tree', 'check', 'qemu')):
        raise tap.Skip('the pinned QEMU is gone from the mirror: bytes are not compared')
    patch = next((clone.root / 'patches').glob('MAINTAINERS-*.patch'))
    patch.write_text(patch.read_text().replace('---\n', '---\n\n', 1))
    fails(clone.run('tree', 'check', 'qemu'), patch.name, 'tree refresh qemu')
    works(clone.run('tree', 'refresh', 'qemu'))
    works(clone.run('tree', 'check', 'qemu'), 'round-trip byte for byte')
    works(clone.run('tree', 'export', 'qemu'), 'patches in build/export/qemu')
    [folded] = (clone.root / 'build/export/qemu').glob('*-virtio-balloon-let-the-host-*')
    assert '+++ b/hw/virtio/virtio-balloon-report.c' in folded.read_text()
    # Work that is not in the series yet is never thrown away.
    (clone.root / 'build/tree/qemu/MAINTAINERS').write_text('work')
    fails(clone.run('tree', 'prepare', 'qemu'), 'has work that is not in patches')


def test_odd_series():
    clone = Clone('odd', pins=False)
    series = clone.root / 'patches/series'
    good = series.read_text()
    for bad, words in ((good + 'none.patch\n', 'does not exist'),
                       (good + good.splitlines()[-1] + '\n', 'named twice'),
                       (good.replace(': qapi/balloon-report.json', ':'), 'belongs to no patch'),
                       (good + '../x.patch\n', 'is no patch file name')):
        series.write_text(bad)
        fails(clone.run('tree', 'prepare', 'qemu'), words)
    series.write_text(good)
    (clone.root / 'patches/extra.patch').write_text('')
    fails(clone.run('tree', 'prepare', 'qemu'), 'extra.patch is not in')


def test_stopped_build():
    clone = Clone('stopped')
    said = clone.root / 'pid'
    (clone.bin / 'meson').write_text(f'#!/bin/sh\necho $$ >{said}.new; mv {said}.new {said}\nsleep 600\n')
    (clone.bin / 'meson').chmod(0o755)
    build = subprocess.Popen([clone.root / 'scripts/build', 'programs'], env=clone.env,
                             stdout=subprocess.DEVNULL)
    wait_until(said.exists, 60, 'a build that runs')
    build.terminate()
    assert build.wait(60) == 130
    meson = Path('/proc', said.read_text().strip())
    wait_until(lambda: not meson.exists(), 10, 'what it ran gone')


def test_missing_option():
    clone = Clone('option', pins=False)
    fails(clone.run('tree', 'prepare', 'nothing'), "'nothing'", 'linux-6.12')
    fails(clone.run('check', 'nothing'), "'nothing'", 'qtest')


if __name__ == '__main__':
    # Not in /tmp, which may be small and in memory.
    with tempfile.TemporaryDirectory(dir=ROOT / 'build') as folder:
        work = Path(folder)
        tap.run([
            ('a pinned version is fetched once', test_pinned),
            ('a wrong checksum is refused and removed', test_wrong_sum),
            ('a damaged cache is mended', test_damaged_cache),
            ('a newer point release is taken with a notice', test_newer_point_release),
            ('another series or one below the floor is not', test_no_usable_version),
            ('no network', test_no_network),
            ('a download that is cut', test_cut_download),
            ('a missing tool', test_missing_tool),
            ('a full disk', test_full_disk),
            ('no memory for the demo', test_no_memory),
            ('LINUX_SRC is used and left alone', test_users_tree),
            ('a tree that does not match says so', test_users_tree_that_does_not_match),
            ('a tree that is mended is taken, one of another series is not',
             test_users_tree_that_is_mended),
            ('work in build/tree is never thrown away', test_work_is_kept),
            ('a space in the path, a relative cache', test_spaces_and_relative_cache),
            ('a build that is stopped leaves nothing running', test_stopped_build),
            ('unpacking that was cut is not taken for done', test_cut_unpacking),
            ('a byte of difference in a series is seen', test_round_trip_sees_a_byte),
            ('an odd series stops', test_odd_series),
            ('names that do not exist', test_missing_option),
        ])
