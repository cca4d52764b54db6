"""A QMP client over a connected socket: commands, errors, events.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import select
import time

# A QEMU that is well answers in milliseconds; under a full load of builds on
# two cores, in seconds.
ANSWER_SECONDS = 60


class QMPError(Exception):
    """An error that QEMU answered, with its class and text."""

    def __init__(self, error):
        super().__init__(f"{error['class']}: {error['desc']}")
        self.cls = error['class']
        self.desc = error['desc']


class QMP:
    """One QMP session. Events are kept until they are asked for."""

    def __init__(self, sock):
        self.sock = sock
        self.buffer = b''
        self.events = []
        self._receive(time.monotonic() + ANSWER_SECONDS)  # the greeting
        self.command('qmp_capabilities')

    def _receive(self, deadline):
        """The next message, or TimeoutError."""
        while b'\n' not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.sock], [], [], left)[0]:
                raise TimeoutError('QEMU does not answer on QMP')
            data = self.sock.recv(65536)
            if not data:
                raise ConnectionError('QEMU closed QMP')
            self.buffer += data
        line, self.buffer = self.buffer.split(b'\n', 1)
        return json.loads(line)

    def raw(self, text):
        """Send text as it is; the answer, which may be an error, as a dict."""
        self.sock.sendall(text.encode() + b'\n')
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            message = self._receive(deadline)
            if 'event' not in message:
                return message
            self.events.append(message)

    def command(self, name, **arguments):
        """Run a command; '_' in argument names stands for '-'. Raises QMPError."""
        message = {'execute': name}
        if arguments:
            message['arguments'] = {key.replace('_', '-'): value
                                    for key, value in arguments.items()}
        answer = self.raw(json.dumps(message))
        if 'error' in answer:
            raise QMPError(answer['error'])
        return answer['return']

    def hmp(self, line):
        return self.command('human-monitor-command', **{'command_line': line})

    def wait_event(self, name, seconds, accept=lambda data: True):
        """The data of the next event of this name that is accepted."""
        deadline = time.monotonic() + seconds
        while True:
            for index, event in enumerate(self.events):
                if event['event'] == name and accept(event.get('data', {})):
                    del self.events[:index + 1]
                    return event.get('data', {})
            self.events = []
            message = self._receive(deadline)
            if 'event' in message:
                self.events.append(message)
