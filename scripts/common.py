# What scripts/ share: where things are, how they speak, what is pinned.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import fcntl
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / 'build'
# A relative XDG_CACHE_HOME does not count: so says its specification.
_XDG = Path(os.environ.get('XDG_CACHE_HOME', ''))
CACHE = (_XDG if _XDG.is_absolute() else Path.home() / '.cache') / 'report-delay'
TOOL = Path(sys.argv[0]).name


def say(text):
    """One line of progress, at once also through a pipe."""
    print(f'{TOOL}: {text}', flush=True)


def die(text):
    """End with one line that says what is wrong and what to do."""
    sys.exit(f'{TOOL}: {text}')


def upstreams():
    """upstreams.toml as a dict of name -> pin."""
    with open(ROOT / 'upstreams.toml', 'rb') as file:
        return tomllib.load(file)


def run(command, **kwargs):
    """Run to success and return stdout as text, or die with its last words."""
    kwargs.setdefault('stdout', subprocess.PIPE)
    kwargs.setdefault('stderr', subprocess.PIPE)
    try:
        done = subprocess.run([str(word) for word in command], text=True, **kwargs)
    except FileNotFoundError:
        die(f'{command[0]} is missing: run `make setup`')
    if done.returncode:
        words = (done.stderr or done.stdout or '').strip().splitlines()
        die(f'{Path(str(command[0])).name} failed: {words[-1] if words else "no message"}')
    return done.stdout


def need_space(folder, gib, what):
    """Refuse to start what would fill the disk half-way."""
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free / 2**30
    if free < gib:
        die(f'{what} needs {gib} GiB in {folder}, {free:.1f} GiB are free: make room, then run again')


def write_if_changed(path, data):
    """Write bytes only where they differ, so that a rebuild stays small. True if written."""
    if path.is_file() and not path.is_symlink() and path.read_bytes() == data:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    # Never in place: the old file may be a hard link, and a half-written one
    # would be taken for done.
    new = path.with_name(path.name + '.new')
    new.write_bytes(data)
    if path.exists():
        shutil.copymode(path, new)
    os.replace(new, path)
    return True


def lock(name, folder=BUILD):
    """Hold a lock of this name for this process's life: two runs at once wait."""
    folder.mkdir(parents=True, exist_ok=True)
    file = open(folder / f'.{name}.lock', 'w', encoding='ascii')
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say(f'waiting for another run that works on {name}')
        fcntl.flock(file, fcntl.LOCK_EX)
    lock.held = getattr(lock, 'held', []) + [file]


def start(main):
    """Run main(); what the system refuses ends in one line, not in a traceback."""
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        die(f'{error.strerror or error}: {error.filename or ""}'.rstrip(': '))
