"""What docs/operating.rst shows is what happens: its commands are run, their output compared.

In a `.. code-block:: console`, what follows `# ` is run on the host, `guest# `
in the guest of the domain named last, `$ ` and `other$ ` not at all. `...` stands for
anything. A comment `.. replay-edit: DOMAIN OLD NEW` does what the text asks the
reader to do with `virsh edit`. Domains that cannot be steered are defined, and
those that can run are started, when they are first named.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import os
import re
import subprocess
import time
import xml.etree.ElementTree as ET
from pathlib import Path

from host import NAME, PAGE, QEMU_NS, Console, Host, domain_xml, enter
import tap

# Differs from run to run: there, and of the same type.
VOLATILE = {'id', 'reports', 'reported-bytes', 'discarded-bytes', 'lease-left-ms'}
# What only looks may be asked again until the guest has answered.
LOOKS = re.compile(r'query-|qom-get|--hmp info|dommemstat|dominfo|^cat |^grep ')
SETTLE_SECONDS = 90
RSS_TOLERANCE = 0.3  # what the guest uses itself varies
host = None


def override(tree):
    return tree.find(f'{{{QEMU_NS}}}override')


def no_device(tree):
    balloon = tree.find('devices/memballoon')
    balloon.clear()
    balloon.set('model', 'none')
    tree.remove(override(tree))


def no_property(tree):
    tree.remove(override(tree))


def no_reporting(tree):
    del tree.find('devices/memballoon').attrib['freePageReporting']


def misspelt(tree):
    tree.find(f'.//{{{QEMU_NS}}}property').set('name', 'report-dely')


DOMAINS = {'off': {}, 'no-device': {'change': no_device}, 'no-property': {'change': no_property},
           'no-driver': {'cmdline': 'virtio_balloon.report_delay=0'},
           'no-reporting': {'change': no_reporting}, 'misspelt': {'change': misspelt}}
RUNNING = ('no-device', 'no-property', 'no-driver')


def steps(page):
    """[(kind, command, [lines of output])] of the page; kind is '#', 'guest#' or 'edit'."""
    found = []
    pattern = r'^\.\. replay-edit: (.*)\n|^\.\. code-block:: console\n\n((?:    .*\n|\n)+)'
    for edit, block in re.findall(pattern, page, re.M):
        if edit:
            found.append(('edit', edit, []))
            continue
        for line in block.splitlines():
            line = line[4:]
            if match := re.match(r'(#|guest#|(?:other)?\$) (.*)', line):
                found.append((match.group(1), match.group(2), []))
            elif line and found:
                found[-1][2].append(line)
    return [step for step in found if not step[0].endswith('$')]


def same_json(got, wanted):
    if isinstance(wanted, dict):
        return isinstance(got, dict) and got.keys() == wanted.keys() and all(
            isinstance(got[key], type(value)) if key in VOLATILE else same_json(got[key], value)
            for key, value in wanted.items())
    return type(got) is type(wanted) and got == wanted


def as_json(text):
    try:
        return json.loads(text)
    except ValueError:
        return None


def same_line(got, wanted):
    if match := re.match(r'rss (\d+)$', wanted):
        found = re.match(r'rss (\d+)$', got)
        return found and abs(int(found[1]) / int(match[1]) - 1) < RSS_TOLERANCE
    head, brace, tail = wanted.partition('{')
    if brace:
        at = got.find('{')
        return at >= 0 and same_line(got[:at], head) and same_json(as_json(got[at:]),
                                                                   json.loads(brace + tail))
    pattern = re.escape(wanted).replace(r'\.\.\.', '.*')
    pattern = re.sub(r'^((?:reports|reported|discarded):\\ )\d+', r'\1\\d+', pattern)
    pattern = re.sub(r'at\\ \d+\\\.\d+', r'at\\ [\\d.]+', pattern)
    pattern = re.sub(r'(version\\ )\d+\\\.\d+\\\.\d+', r'\1[\\d.]+', pattern)
    return re.fullmatch(pattern, got) is not None


def same(got, wanted):
    """Whether an output is as the page says."""
    if (whole := as_json('\n'.join(wanted))) is not None and isinstance(whole, dict):
        return same_json(as_json(got), whole)
    lines = [line.rstrip() for line in got.splitlines() if line.strip()]
    if wanted and wanted[-1] == '...':
        wanted = wanted[:-1]
        lines = lines[:len(wanted)]
    return len(lines) == len(wanted) and all(map(same_line, lines, wanted))


class Replay:
    def __init__(self):
        self.background = []
        self.domain = NAME
        self.known = set()
        self.consoles = {}

    def console(self, domain):
        if domain in self.consoles and self.consoles[domain].process.poll() is not None:
            self.consoles.pop(domain).close()
        if domain not in self.consoles:
            self.consoles[domain] = Console(host, domain)
        return self.consoles[domain]

    def close(self):
        for console in self.consoles.values():
            console.close()

    def name(self, command):
        """Take note of the domain that is named, and let it run if it should."""
        for word in re.findall(r'[\w-]+', command):
            if word in DOMAINS or word == NAME:
                self.domain = word
                if word in DOMAINS and word not in self.known:
                    self.known.add(word)
                    host.define(domain_xml(word, **DOMAINS[word]))
                    if word in RUNNING:
                        host.virsh('start', word)
                        self.console(word)
                return

    def once(self, kind, command):
        """Run a command: what it prints."""
        if kind == 'edit':
            domain, old, new = command.split()
            text = host.virsh('dumpxml', '--inactive', domain)
            assert old in text, text
            host.define(text.replace(old, new))
            return ''
        if kind == 'guest#':
            return self.console(self.domain).run(command)
        if command == 'wait':
            return ''.join(process.communicate(timeout=90)[0] for process in self.background)
        shell = {'stdin': subprocess.DEVNULL, 'stdout': subprocess.PIPE,
                 'stderr': subprocess.STDOUT, 'text': True}
        if command.endswith(' &'):
            self.background = [subprocess.Popen(['sh', '-c', 'exec ' + command[:-2]], **shell)]
            time.sleep(3)  # it does not say when it listens; it takes 0.1 s
            return ''
        return subprocess.run(['sh', '-c', command], timeout=120, check=False, **shell).stdout

    def step(self, kind, command, wanted):
        if kind == '#':
            self.name(command)
        deadline = time.monotonic() + (SETTLE_SECONDS if LOOKS.search(command) else 0)
        while not same(got := self.once(kind, command), wanted):
            if time.monotonic() > deadline:
                shown = '\n'.join(wanted)
                raise AssertionError(f'{kind} {command}\nprints\n{got}\nthe page shows\n{shown}')
            time.sleep(0.2)


def test_page():
    page = steps(PAGE)
    assert len(page) > 30, page
    os.makedirs('/run/operating')
    os.chdir('/run/operating')
    Path(f'{NAME}.xml').write_text(domain_xml(), encoding='utf-8')
    replay = Replay()
    try:
        for kind, command, wanted in page:
            replay.step(kind, command, wanted)
    finally:
        replay.close()
    assert replay.known == set(DOMAINS), replay.known
    for name in (NAME, *RUNNING):
        host.check_kernel(name)
    tap.note(f'{len(page)} steps')


def test_it_can_fail():
    """The comparison sees a difference of each kind."""
    answer = '{"return":{"applied-ms":50,"reports":6},"id":"libvirt-1"}'
    for got, wanted, alike in (
            (answer, [answer.replace('6', '7').replace('-1', '-2')], True),
            (answer, [answer.replace('50', '51')], False),
            (answer, [answer.replace('"reports":6', '"reports":true')], False),
            (answer, ['{"return":{},"id":"libvirt-1"}'], False),
            ('rss 100000', ['rss 120000'], True), ('rss 100000', ['rss 500000'], False),
            ('applied: 50 ms', ['applied: 51 ms'], False),
            ('reports: 6', ['reports: 7'], True),
            ('error: a: b', ['error: ...: b'], True), ('error: a: c', ['error: ...: b'], False),
            ('a\nb\n', ['a'], False), ('a\nb\n', ['a', '...'], True),
            ('event at 1.5 {"a":1}', ['event at 2.5 {"a":1}'], True),
            ('event at 1.5 {"a":1}', ['event at 2.5 {"a":2}'], False)):
        assert bool(same(got, wanted)) == alike, (got, wanted)
    ET.fromstring(domain_xml())


def main():
    global host  # pylint: disable=global-statement
    with Host() as host:
        tap.run([('the comparison sees a difference', test_it_can_fail),
                 ('the commands of docs/operating.rst', test_page)])


if __name__ == '__main__':
    enter(main)
