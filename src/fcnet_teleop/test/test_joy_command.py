"""What the buttons and sticks of one joystick mean, and which of several drives."""

import math

import pytest

from fcnet_core.names import BUTTONS, Request
from fcnet_teleop.controls import load_remote_control
from fcnet_teleop.teleop_joy import JoyReader, Joysticks

STANDSTILL = {"vx": 0.0, "vy": 0.0, "yaw_rate": 0.0}
PERIOD = 0.02  # [s]
UNITREE, PAD = "unitree_remote", "joy"


class Remote:
    """Unitree's remote in a person's hands."""

    def __init__(self, ranges):
        self.reader = JoyReader(load_remote_control(), "unitree", ranges)
        self.now = 10.0
        self.hold()  # a joystick that connects with the deadman button held drives nothing

    def hold(self, *buttons, lx=0.0, ly=0.0, rx=0.0, ry=0.0):
        self.now += PERIOD
        return self.reader.take([lx, ly, rx, ry, 0.0], [name in buttons for name in BUTTONS], self.now)


@pytest.fixture
def remote(robot):
    return Remote(robot.commands)


def test_a_stick_drives_within_half_of_the_robots_range_and_to_the_right_side(remote, robot):
    ahead = remote.hold("L1", ly=1.0).velocity
    assert ahead["vx"] == pytest.approx(0.5 * robot.commands["vx"].highest)
    assert ahead["vy"] == ahead["yaw_rate"] == 0.0
    back_left = remote.hold("L1", ly=-1.0, lx=-1.0, rx=-1.0).velocity
    assert back_left["vx"] == pytest.approx(0.5 * robot.commands["vx"].lowest)
    assert back_left["vy"] == pytest.approx(0.5 * robot.commands["vy"].highest)
    assert back_left["yaw_rate"] == pytest.approx(0.5 * robot.commands["yaw_rate"].highest)


def test_slow_and_fast_buttons_change_the_speed_while_held(remote, robot):
    highest = robot.commands["vx"].highest
    speeds = [remote.hold("L1", *held, ly=1.0).velocity["vx"] for held in ([], ["R1"], ["R2"], ["R1", "R2"], [])]
    assert speeds == pytest.approx([0.5 * highest, highest, 0.25 * highest, 0.25 * highest, 0.5 * highest])


def test_a_stick_counts_as_centred_in_its_dead_zone_and_grows_steadily_beyond(remote):
    assert remote.hold("L1", ly=0.1, lx=-0.1, rx=0.09).velocity == STANDSTILL
    speeds = [remote.hold("L1", ly=0.1 + 0.01 * step).velocity["vx"] for step in range(91)]
    assert speeds == sorted(speeds)
    assert 0.0 < speeds[1] < 0.02


def test_the_larger_chord_counts_also_while_its_buttons_are_let_go_one_by_one(remote):
    remote.hold()
    remote.hold("L1", "L2")
    assert remote.hold("L1", "L2", "A").requests == (Request.RECOVER,)
    assert remote.hold("L1", "A").requests == ()
    assert remote.hold("L1").requests == ()
    pose = remote.hold("L1", "L2", "up").pose
    assert pose["height"] == 0.0
    assert pose["pitch"] < 0.0


REQUESTS = {"A": Request.STAND_UP, "Y": Request.WALK, "X": Request.LIE_DOWN, "start": Request.RESET}


@pytest.mark.parametrize(("button", "request_"), REQUESTS.items())
def test_a_request_needs_the_deadman_too_and_counts_once(remote, button, request_):
    remote.reader.release()
    assert remote.hold("L1", button).requests == ()  # held from the beginning
    assert remote.hold("L1", button).requests == ()
    remote.hold()
    assert remote.hold(button).requests == ()
    remote.hold("L1")
    assert remote.hold("L1", button).requests == (request_,)
    assert remote.hold("L1", button).requests == ()
    remote.hold("L1")
    assert remote.hold("L1", button).requests == (request_,)


@pytest.mark.parametrize("held", [[], ["L1"], ["L1", "A"], ["L2"], list(BUTTONS)])
def test_the_emergency_stop_needs_no_other_button_and_counts_even_in_the_first_message(remote, held):
    remote.reader.release()
    command = remote.hold(*held, "B", ly=1.0)
    assert command.requests == (Request.EMERGENCY_STOP,)
    assert not command.driving
    assert remote.hold(*held, "B").requests == ()
    remote.hold()
    remote.hold("L1", ly=1.0)
    command = remote.hold(*held, "B", ly=1.0)
    assert (command.requests, command.velocity) == ((Request.EMERGENCY_STOP,), STANDSTILL)
    assert remote.hold(*held, "B", ly=1.0).velocity is None


@pytest.mark.parametrize("value", [32767.0, math.nan])
def test_a_message_that_cannot_be_right_is_reported_and_counts_as_released_but_for_an_emergency_stop(remote, value):
    remote.hold("L1", ly=1.0)
    command = remote.hold("L1", ly=value)
    assert (command.requests, command.velocity, bool(command.problem)) == ((), STANDSTILL, True)
    assert remote.hold("L1", ly=value).velocity is None
    stop = remote.hold("B", ly=value)
    assert (stop.requests, bool(stop.problem)) == ((Request.EMERGENCY_STOP,), True)


def test_a_silent_joystick_stops_the_robot_once_and_a_button_still_held_afterwards_requests_nothing(remote):
    remote.hold()
    remote.hold("L1", ly=1.0)
    assert remote.reader.release().velocity == STANDSTILL
    assert remote.reader.release().velocity is None
    reconnected = remote.hold("L1", "A", ly=1.0)
    assert (reconnected.requests, reconnected.velocity, bool(reconnected.problem)) == ((), None, True)
    remote.hold(ly=1.0)
    assert remote.hold("L1", ly=1.0).velocity["vx"] > 0.5  # pressed again
    assert remote.hold("L1", "B").requests == (Request.EMERGENCY_STOP,)


def test_the_cross_changes_the_pose_while_held_with_the_deadman_and_stops_at_the_robots_range(remote, robot):
    assert remote.hold("down").pose is None
    heights = [remote.hold("L1", "down").pose["height"] for _ in range(50)]
    rate = robot.commands["height"].rate
    assert heights[-1] - heights[-2] == pytest.approx(-0.25 * rate * PERIOD)
    for _ in range(500):
        lowest = remote.hold("L1", "down").pose
    assert lowest == {"height": robot.commands["height"].lowest, "roll": 0.0, "pitch": 0.0}
    assert remote.hold("L1").pose is None
    assert remote.hold("L1", "right").pose["roll"] > 0.0


@pytest.mark.parametrize(("button", "pose"), [("select", {"height": 0.0, "roll": 0.0, "pitch": 0.0}), ("start", None)])
def test_the_pose_can_be_taken_back(remote, button, pose):
    remote.hold("L1", "down")
    assert remote.hold("L1", button).pose == pose
    assert remote.hold("L1", "right").pose["height"] == 0.0


class TwoJoysticks:
    """Unitree's remote and an Xbox pad, both publishing on one topic, and a second pad of the same frame_id."""

    def __init__(self, ranges):
        self.joysticks = Joysticks(load_remote_control(), "xbox", ranges, timeout=0.5)
        self.now = 10.0
        self.unitree()
        self.pad()

    def unitree(self, *buttons, ly=0.0):
        axes, pressed = [0.0, ly, 0.0, 0.0, 0.0], [name in buttons for name in BUTTONS]
        return self.joysticks.take((UNITREE, "bridge"), axes, pressed, self.now)

    def pad(self, *buttons, ly=0.0, sender="one", more=3, axes=8):
        names = ["A", "B", "X", "Y", "L1", "R1", "select", "start"]
        values, pressed = [0.0, ly, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0], [name in buttons for name in names] + [0] * 10
        return self.joysticks.take((PAD, sender), values[:axes], pressed[: 8 + more], self.now)


@pytest.fixture
def pair(robot):
    return TwoJoysticks(robot.commands)


def test_who_holds_the_deadman_first_drives_until_it_is_released_and_each_can_stop_the_robot(pair):
    for held in ((), ("L1",)):
        assert pair.pad("L1", ly=1.0).velocity["vx"] > 0.5
        assert pair.unitree(*held, ly=-1.0).velocity is None
    assert pair.pad().velocity == STANDSTILL
    assert pair.unitree("L1", ly=-1.0).velocity["vx"] < 0.0
    assert pair.pad("L1", ly=1.0).velocity is None
    for stop in (pair.pad, pair.unitree):  # one of them drives
        assert stop("L1", "B").requests == (Request.EMERGENCY_STOP,)


def test_pads_of_two_drivers_with_one_frame_id_are_told_apart(pair):
    for _ in range(3):
        assert pair.pad("L1", ly=1.0).velocity["vx"] > 0.5
        assert pair.pad(sender="two").velocity is None  # untouched
    assert pair.pad("B", sender="two").requests == (Request.EMERGENCY_STOP,)


def test_a_joystick_that_falls_silent_is_released_once_until_it_publishes_again_and_the_other_may_drive(pair):
    pair.pad("L1", ly=1.0)
    assert pair.joysticks.release_silent(0.4) == []
    pair.unitree("L1")
    [(frame_id, command)] = pair.joysticks.release_silent(0.2)
    assert frame_id == PAD
    assert command.velocity == STANDSTILL
    assert pair.joysticks.release_silent(0.2) == []
    assert pair.unitree("L1", ly=1.0).velocity["vx"] > 0.5
    assert [name for name, _ in pair.joysticks.release_silent(0.6)] == [UNITREE]
    assert pair.joysticks.status()[0]
    assert pair.pad("L1", ly=1.0).velocity is None  # it publishes again, and the button is still held
    pair.pad()
    assert pair.pad("L1", ly=1.0).velocity["vx"] > 0.5
    assert pair.joysticks.status() == ("", "driving")
    assert [name for name, _ in pair.joysticks.release_silent(0.6)] == [PAD]


@pytest.mark.parametrize(("more", "axes"), [(0, 8), (2, 8), (5, 8), (3, 7), (5, 6), (9, 6), (3, 9), (-8, 0)])
def test_a_message_with_other_numbers_than_the_layouts_commands_nothing_but_a_stop(pair, more, axes):
    pair.pad("L1", ly=1.0)
    other = pair.pad("L1", "A", ly=1.0, more=more, axes=axes)  # in the middle of a drive
    assert (other.velocity, other.pose, other.requests) == (STANDSTILL, None, ())
    found = f"{axes} axes and {8 + more} buttons"
    for sentence in (other.problem, pair.joysticks.status()[0]):
        assert found in sentence and "layout xbox has 8 axes and 11 or 12 buttons" in sentence
    assert ("layout:=ps," in other.problem) == ((more, axes) == (5, 8))
    assert pair.pad("L1", ly=1.0).velocity is None
    if more > -8:
        assert pair.pad("B", more=more, axes=axes).requests == (Request.EMERGENCY_STOP,)


def test_an_unknown_layout_is_one_sentence_with_the_known_ones(robot):
    with pytest.raises(ValueError, match="no joystick layout 'wii'; known are unitree, xbox"):
        Joysticks(load_remote_control(), "wii", robot.commands, 0.5)
