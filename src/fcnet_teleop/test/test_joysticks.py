import pytest

from fcnet_core.names import BUTTONS, Request
from fcnet_teleop.controls import load_remote_control
from fcnet_teleop.teleop_joy import Joysticks

UNITREE, PAD = "unitree_remote", "joy"
STANDSTILL = {"vx": 0.0, "vy": 0.0, "yaw_rate": 0.0}


class TwoJoysticks:
    """Unitree's remote and an Xbox pad, both publishing on one topic."""

    def __init__(self, ranges):
        self.joysticks = Joysticks(load_remote_control(), "xbox", ranges, timeout=0.5)
        self.now = 10.0

    def unitree(self, *buttons, ly=0.0):
        axes, pressed = [0.0, ly, 0.0, 0.0, 0.0], [name in buttons for name in BUTTONS]
        return self.joysticks.take(UNITREE, axes, pressed, self.now)

    def pad(self, *buttons, ly=0.0):
        names = ["A", "B", "X", "Y", "L1", "R1", "select", "start"]
        axes = [0.0, ly, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0]
        return self.joysticks.take(PAD, axes, [name in buttons for name in names], self.now)


@pytest.fixture
def pair(robot):
    return TwoJoysticks(robot.commands)


def test_a_joystick_that_lies_around_does_not_disturb_the_one_that_drives(pair):
    for _ in range(3):
        assert pair.pad("L1", ly=1.0).velocity["vx"] > 0.5
        assert pair.unitree().velocity is None


def test_who_holds_the_deadman_first_drives_until_it_is_released(pair):
    assert pair.pad("L1", ly=1.0).velocity["vx"] > 0.5
    assert pair.unitree("L1", ly=-1.0).velocity is None
    assert pair.pad().velocity == STANDSTILL
    assert pair.unitree("L1", ly=-1.0).velocity["vx"] < 0.0
    assert pair.pad("L1", ly=1.0).velocity is None


def test_every_joystick_can_stop_whoever_drives(pair):
    pair.pad("L1", ly=1.0)
    assert pair.unitree("B").requests == (Request.EMERGENCY_STOP,)
    assert pair.pad("L1", "B").requests == (Request.EMERGENCY_STOP,)


def test_a_joystick_that_falls_silent_is_released_once_and_the_other_may_drive(pair):
    pair.pad("L1", ly=1.0)
    assert pair.joysticks.release_silent(0.4) == []
    pair.unitree("L1")
    [(frame_id, command)] = pair.joysticks.release_silent(0.2)
    assert frame_id == PAD
    assert command.velocity == STANDSTILL
    assert pair.joysticks.release_silent(0.2) == []
    assert pair.unitree("L1", ly=1.0).velocity["vx"] > 0.5
    assert [name for name, _ in pair.joysticks.release_silent(0.6)] == [UNITREE]


def test_a_joystick_that_publishes_again_drives_again(pair):
    pair.pad("L1", ly=1.0)
    pair.joysticks.release_silent(0.6)
    assert pair.pad("L1", ly=1.0).velocity["vx"] > 0.5
    assert [name for name, _ in pair.joysticks.release_silent(0.6)] == [PAD]


def test_an_unknown_layout_is_one_sentence_with_the_known_ones(robot):
    with pytest.raises(ValueError, match="no joystick layout 'wii'; known are unitree, xbox"):
        Joysticks(load_remote_control(), "wii", robot.commands, 0.5)
