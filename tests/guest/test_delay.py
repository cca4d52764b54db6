"""The whole path on a booted guest: the host asks, the guest's memory comes back.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import time

import tap
from guest import DEVICE, Guest, nothing_happens_for, wait_until

MIB = 2**20
SYSCTL = '/proc/sys/vm/page_reporting_delay_ms'
TRIGGER = '/proc/sys/vm/page_reporting_trigger'
PARAM = '/sys/module/page_reporting/parameters/page_reporting_delay_ms'
EVENT = 'BALLOON_REPORT_DELAY_CHANGE'

SERIES = os.environ.get('REPORT_DELAY_SERIES', '6.12')

# Used and freed in the tests of reclaim. Large beside what else the guest's
# and QEMU's memory does meanwhile.
USED_MIB = 2048

guest = None


def returned(before, peak):
    """The part of what was used that is back on the host, 0 to 1."""
    return (peak - guest.rss()) / (peak - before)


def test_preconditions():
    tap.note(f'accelerator {guest.accel}, kernel {guest.release}, {guest.qemu.name}')
    assert guest.release.startswith(SERIES.split('-')[0] + '.'), guest.release
    # The debug kernel has the same release; lockdep tells them apart.
    lockdep = guest.run('test -e /proc/lockdep_stats', check=False)[0] == 0
    assert lockdep == ('debug' in SERIES), SERIES
    guest.wait_applied(2000)  # the kernel's default, told without being asked
    state = guest.delay()
    assert state['offered'] and state['negotiated'] and not state['inhibited'], state
    assert 'requested-ms' not in state, state


def test_zero_brings_back_what_a_minute_holds():
    guest.settle()
    guest.set_delay(60000)
    before, peak = guest.use_and_free(USED_MIB)
    assert peak - before > 0.9 * USED_MIB * MIB, (before, peak)
    nothing_happens_for(3)
    held = returned(before, peak)
    assert held < 0.10, f'{held:.0%} is back though the delay is a minute'
    start = time.monotonic()
    guest.set_delay(0, wait=False)
    # Far more than it takes, for a loaded machine; a minute would fail.
    wait_until(lambda: returned(before, peak) >= 0.97, 10, '97 % back')
    tap.note(f'97 % of {USED_MIB} MiB were back after {time.monotonic() - start:.3f} s')
    guest.wait_applied(0)


def test_a_minute_moves_a_pending_pass_out():
    guest.settle()
    guest.set_delay(500)
    before, peak = guest.use_and_free(USED_MIB)
    # 16 passes at 500 ms: caught in the middle, the next one is pending.
    wait_until(lambda: returned(before, peak) > 0.05, 10, 'the first pass')
    guest.set_delay(60000)
    time.sleep(0.5)  # a pass that had begun
    first = returned(before, peak)
    assert first < 0.9, f'{first:.0%} is back: nothing is left to hold'
    nothing_happens_for(3)
    second = returned(before, peak)
    assert second - first < 0.03, f'{first:.0%} became {second:.0%} at a minute\'s delay'
    guest.set_delay(0, wait=False)
    wait_until(lambda: returned(before, peak) >= 0.97, 10, '97 % back')


def expect_refused(path, text):
    before = guest.read(path)
    status, output = guest.run(f'echo {text} >{path}', check=False)
    assert status != 0 and 'Invalid argument' in output, (text, status, output)
    assert guest.read(path) == before, text


def check_knob(path, other):
    guest.withdraw()
    guest.set_delay(1000)
    for bad in ('-1', '600001', 'x', '1x', "''"):
        expect_refused(path, bad)
    # A sysctl takes an empty write and does nothing, a parameter refuses it.
    guest.run(f'write0 {path}', check=path == SYSCTL)
    assert guest.read(path) == '1000'
    if path == SYSCTL:
        # Nor does it make the host's value the guest's own.
        guest.withdraw()
        assert guest.read(path) != '1000'
        guest.set_delay(1000)
    for value in (0, 600000, 777):
        guest.qmp.events = []
        guest.run(f'echo {value} >{path}')
        guest.wait_applied(value)
        assert guest.read(other) == str(value)
    data = guest.qmp.wait_event(EVENT, 30, lambda data: data['applied-ms'] == 777)
    assert data['requested-ms'] == 1000, data
    assert guest.delay()['requested-ms'] == 1000


def test_sysctl():
    check_knob(SYSCTL, PARAM)


def test_parameter():
    check_knob(PARAM, SYSCTL)


def test_trigger():
    guest.settle()
    guest.set_delay(60000)
    before, peak = guest.use_and_free(USED_MIB)
    nothing_happens_for(1)
    held = returned(before, peak)
    assert held < 0.10, f'{held:.0%} is back though the delay is a minute'
    for bad in ('0', '2', '-1', 'x'):
        status, output = guest.run(f'echo {bad} >{TRIGGER}', check=False)
        assert status != 0 and 'Invalid argument' in output, (bad, output)
    guest.run(f'write0 {TRIGGER}')
    assert guest.run(f'cat {TRIGGER}', check=False)[0] != 0, 'it can be read'
    nothing_happens_for(1)
    assert returned(before, peak) < 0.10, 'a write of no value has triggered'
    guest.run(f'echo 1 >{TRIGGER}')
    # Once: what is in per-CPU lists at that moment is not free yet.
    wait_until(lambda: returned(before, peak) >= 0.9, 10, '90 % back')
    # No delay has changed, and it holds what is freed now.
    assert guest.read(SYSCTL) == '60000' and guest.delay()['applied-ms'] == 60000
    before, peak = guest.use_and_free(USED_MIB)
    nothing_happens_for(3)
    assert returned(before, peak) < 0.10, 'passes go on after a trigger'


def test_trigger_without_device():
    with Guest(series=SERIES, device=None) as other:
        status, output = other.run(f'echo 1 >{TRIGGER}', check=False)
        assert status != 0 and 'No such device' in output, output


def test_who_wins():
    guest.set_delay(100)
    guest.run(f'echo 3000 >{SYSCTL}')
    guest.wait_applied(3000)
    # The same request again, or a balloon that changes its size, is no news.
    guest.set_delay(100, wait=False)
    guest.qmp.command('balloon', value=512 * MIB)
    guest.qmp.command('balloon', value=3 * 1024 * MIB)
    nothing_happens_for(1)
    assert guest.read(SYSCTL) == '3000'
    guest.set_delay(200)
    assert guest.read(SYSCTL) == '200'
    # Withdrawn: the guest's own value, the last it wrote, is back.
    guest.withdraw()
    guest.wait_applied(3000)
    assert guest.read(SYSCTL) == '3000'


def test_lease_ends():
    guest.run(f'echo 4000 >{SYSCTL}')
    guest.qmp.command('balloon-set-report-delay', delay_ms=50, lease_ms=1500)
    guest.wait_applied(50)
    guest.wait_applied(4000)


def test_paused():
    guest.qmp.command('stop')
    guest.set_delay(1234, wait=False)
    guest.qmp.command('cont')
    guest.wait_applied(1234)
    assert guest.read(SYSCTL) == '1234'


def test_unbound_driver():
    driver = '/sys/bus/virtio/drivers/virtio_balloon'
    guest.run(f'echo 2500 >{SYSCTL}')
    guest.set_delay(150)
    device = guest.run(f'cd {driver} && ls -d virtio*')[1].strip()
    guest.run(f'echo {device} >{driver}/unbind')
    assert guest.read(SYSCTL) == '2500', 'the guest\'s own value is back'
    assert not guest.delay()['negotiated']
    assert 'applied-ms' not in guest.delay()
    guest.set_delay(250, wait=False)
    guest.run(f'echo {device} >{driver}/bind')
    guest.wait_applied(250)
    assert guest.read(SYSCTL) == '250'


def test_refusals_reach_no_guest():
    guest.set_delay(321)
    for bad in ('-1', '600001', '2147483648', '4294967296', '18446744073709551615', '1.5',
                '"300"', 'null'):
        answer = guest.qmp.raw('{"execute": "balloon-set-report-delay", '
                               f'"arguments": {{"delay-ms": {bad}}}}}')
        assert answer['error']['class'] == 'GenericError', (bad, answer)
        assert 'delay-ms' in answer['error']['desc'], (bad, answer)
        if bad in ('600001', '2147483648'):
            assert '600000' in answer['error']['desc'], answer
    assert guest.read(SYSCTL) == '321'
    assert guest.delay()['applied-ms'] == 321


def test_hmp():
    assert guest.qmp.hmp('balloon_report_delay 432') == ''
    guest.wait_applied(432)
    text = guest.qmp.hmp('info balloon_report_delay')
    assert 'requested: 432 ms' in text and 'applied: 432 ms' in text, text
    assert '600000' in guest.qmp.hmp('balloon_report_delay 600001')
    assert guest.delay()['requested-ms'] == 432
    guest.qmp.hmp('balloon_report_delay')
    assert 'requested: none' in guest.qmp.hmp('info balloon_report_delay')


def test_before_boot():
    with Guest(series=SERIES, paused=True) as other:
        other.set_delay(700, wait=False)
        assert other.delay()['requested-ms'] == 700
        other.qmp.command('cont')
        other.boot()
        other.wait_applied(700)
        assert other.read(SYSCTL) == '700'


def test_start_value_and_boot_parameter():
    with Guest(series=SERIES, device=DEVICE + ',report-delay-ms=800',
               append='page_reporting.page_reporting_delay_ms=5000') as other:
        other.wait_applied(800)
        other.withdraw()
        other.wait_applied(5000)


def test_opt_out():
    with Guest(series=SERIES, append='virtio_balloon.report_delay=0') as other:
        other.set_delay(100, wait=False)
        nothing_happens_for(1)
        state = other.delay()
        assert state['offered'] and not state['negotiated'] and 'applied-ms' not in state, state
        assert other.read(SYSCTL) == '2000'


def test_off():
    with Guest(series=SERIES, device='virtio-balloon-pci,free-page-reporting=on') as other:
        other.run(f'echo 0 >{SYSCTL}')
        wait_until(lambda: other.delay()['discarded-bytes'] > 0, 30, 'reports without the feature')
        state = other.delay()
        assert not state['offered'] and not state['negotiated'], state


def test_legacy_and_intx():
    """A transitional device driven as legacy, and one without MSI-X."""
    for options in ('disable-modern=on', 'vectors=0'):
        with Guest(series=SERIES, device=f'{DEVICE},{options}') as other:
            other.wait_applied(2000)
            for value in (500, 416, 4000, 0, 600000):
                other.set_delay(value)
                assert other.read(SYSCTL) == str(value)
            other.run(f'echo 300 >{SYSCTL}')
            other.wait_applied(300)


if __name__ == '__main__':
    with Guest(series=SERIES, memory_mib=3072) as guest:
        tap.run([
            ('the guest is the one under test, and negotiated', test_preconditions),
            ('2 GiB held for a minute are back after delay 0', test_zero_brings_back_what_a_minute_holds),
            ('a pending pass moves out to a minute', test_a_minute_moves_a_pending_pass_out),
            ('the sysctl has bounds and reaches query and event', test_sysctl),
            ('so has the parameter', test_parameter),
            ('the trigger reports what is free now, and changes no delay', test_trigger),
            ('a trigger without a device is refused', test_trigger_without_device),
            ('the last writer wins, a repeated request is no news', test_who_wins),
            ('a lease ends and gives the guest its own value back', test_lease_ends),
            ('a value set while paused is in force afterwards', test_paused),
            ('unbind restores, bind takes what was set meanwhile', test_unbound_driver),
            ('QMP refuses what is no delay and nothing changes', test_refusals_reach_no_guest),
            ('HMP asks and shows', test_hmp),
            ('a value set before boot is in force once the driver is up', test_before_boot),
            ('start value and boot parameter', test_start_value_and_boot_parameter),
            ('a guest may refuse to be steered', test_opt_out),
            ('report-delay=off: reporting as ever, query says so', test_off),
            ('legacy virtio-pci and INTx', test_legacy_and_intx),
        ])
