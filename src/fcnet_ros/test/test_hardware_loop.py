"""The loop between a robot and its node: what it exchanges, leaves out, counts, and does at its end."""

import time
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from ros_harness import wait_until

from fcnet_core.errors import RefusedCommandError
from fcnet_ros.hardware import HardwareInterface, HardwareLoop, Status
from fcnet_ros.health import OK
from fcnet_ros.targets import JointCommand

DAMP = JointCommand(None, 0.0, "")


class CountingHardware(HardwareInterface):
    """Returns the number of each read; `pauses`: seconds that a read takes, or what it raises."""

    period = 0.001

    def __init__(self):
        self.reads, self.written, self.damped, self.pauses = 0, [], 0, {}

    def do_nothing(self, *_arguments): ...

    configure = activate = deactivate = on_published = close = do_nothing

    def write(self, command):
        self.written.append(command)
        return None if command is DAMP else "not now"

    def read(self):
        self.reads += 1
        if isinstance(pause := self.pauses.get(self.reads), Exception):
            raise pause
        time.sleep(pause or 0.0)
        return self.reads

    def damp_at_end(self):
        self.damped += 1

    def status(self):
        return Status(OK, "")


@pytest.fixture
def rig():
    """A loop, what it takes and publishes, and `run` for a number of cycles."""
    rig = SimpleNamespace(hardware=CountingHardware(), published=[], gate=SimpleNamespace(is_open=True))
    take = rig.take = Mock(return_value=None)
    rig.loop = HardwareLoop(rig.hardware, take, rig.published.append, lambda: None, rig.gate)

    def run(cycles):
        rig.loop.start()
        wait_until(lambda: rig.loop.statistics.cycles >= cycles or rig.loop.error, "cycles")
        rig.loop.stop()

    rig.run = run
    return rig


@pytest.mark.parametrize("nth", [1, 5])
def test_every_nth_state_is_published_once_and_in_order(rig, nth):
    rig.hardware.cycles_per_state = nth
    rig.run(20)
    assert rig.published == list(range(1, rig.hardware.reads + 1, nth))


def test_commands_are_written_and_refusals_counted(rig):
    rig.take.side_effect = [DAMP, RefusedCommandError("nothing can follow this"), "targets", *[None] * 1000]
    rig.run(5)
    assert rig.hardware.written == [DAMP, "targets"]
    assert (rig.loop.refused, rig.loop.refusal) == (2, "not now")


def test_an_error_ends_the_loop_with_damping_and_is_kept(rig):
    rig.hardware.pauses[5] = ZeroDivisionError("broken")
    rig.run(100)
    assert rig.hardware.damped == 1
    assert rig.hardware.reads == 5
    assert "ZeroDivisionError: broken" in rig.loop.error


@pytest.mark.parametrize(("catch_up", "misses"), [(0.0, range(45, 10_000)), (60.0, [0])])
def test_periods_that_were_missed_are_left_out_and_counted_unless_the_hardware_may_catch_up(rig, catch_up, misses):
    rig.hardware.catch_up, rig.hardware.pauses[3] = catch_up, 0.05
    rig.run(10)
    assert rig.loop.statistics.misses in misses


@pytest.mark.parametrize("can_wait", [False, True])
def test_until_the_recorder_has_subscribed_nothing_is_published_and_a_simulation_stands_still(rig, can_wait):
    rig.hardware.can_wait, rig.gate.is_open = can_wait, False
    rig.loop.start()
    time.sleep(0.05)
    assert (rig.hardware.reads == 0, rig.published) == (can_wait, [])
    rig.gate.is_open = True
    wait_until(lambda: rig.published, "a state")
    rig.loop.stop()
    assert rig.hardware.damped == 1
