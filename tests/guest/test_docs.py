"""The QMP transcripts in docs/free-page-reporting.rst happen as written.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import re

import tap
from guest import ROOT, Guest

PAGE = ROOT / 'docs/free-page-reporting.rst'
# What differs from run to run: there, and of the same type.
VOLATILE = {'timestamp', 'reports', 'reported-bytes', 'discarded-bytes', 'lease-left-ms'}


def transcript():
    """[('->' or '<-', message)] of the page, in order."""
    messages = []
    for block in re.findall(r'\.\. code-block:: text\n\n((?:    .*\n|\n)+)', PAGE.read_text()):
        for way, text in re.findall(r'^    (->|<-) (.*(?:\n     +.*)*)', block, re.M):
            messages.append((way, json.loads(text)))
    return messages


def same(got, wanted):
    assert got.keys() == wanted.keys(), f'{got} is not like {wanted}'
    for key, value in wanted.items():
        if isinstance(value, dict) and key not in VOLATILE:
            same(got[key], value)
        elif key in VOLATILE:
            assert isinstance(got[key], type(value)), (key, got[key])
        else:
            assert got[key] == value, f'{key}: {got[key]!r}, the page says {value!r}'


def test_transcripts():
    messages = transcript()
    assert len(messages) > 10, messages
    with Guest() as guest:
        guest.wait_applied(2000)
        guest.qmp.events = []
        answer = None
        for way, message in messages:
            if way == '->':
                answer = guest.qmp.raw(json.dumps(message))
            elif 'event' in message:
                data = guest.qmp.wait_event(message['event'], 30)
                same({'event': message['event'], 'data': data, 'timestamp': {}}, message)
            else:
                same(answer, message)


if __name__ == '__main__':
    tap.run([('the transcripts of the user\'s page', test_transcripts)])
