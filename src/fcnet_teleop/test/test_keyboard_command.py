import pytest

from fcnet_teleop.keyboard import SEQUENCES, KeyboardCommand, describe
from fcnet_teleop.remote import Request, load_remote_control

KEYS = load_remote_control().keyboard


@pytest.fixture
def command(robot):
    return KeyboardCommand(KEYS, robot.commands)


def press(command, keys, now=10.0):
    return [command.press(key, now) for key in keys][-1]


def test_keys_add_up_and_space_takes_the_velocity_back(command):
    assert press(command, "wwaeQ") is None
    assert command.setpoint["vx"] == pytest.approx(0.2)
    assert command.setpoint["vy"] == pytest.approx(0.05)
    assert command.setpoint["yaw_rate"] == 0.0
    press(command, "f ")
    assert command.setpoint["vx"] == 0.0
    assert command.setpoint["height"] == pytest.approx(-0.01)
    press(command, "c")
    assert command.setpoint["height"] == 0.0


def test_the_command_ends_at_the_robots_ranges(command, robot):
    for field, step in KEYS.steps.items():
        press(command, [SEQUENCES.get(step.higher[0], step.higher[0])] * 100)
        assert command.setpoint[field] == robot.commands[field].highest
        press(command, [SEQUENCES.get(step.lower[0], step.lower[0])] * 200)
        assert command.setpoint[field] == robot.commands[field].lowest


def test_an_arrow_drives_and_only_a_lone_escape_stops(command):
    assert press(command, ["\x1b[A"]) is None
    assert command.setpoint["vx"] == pytest.approx(0.1)
    assert press(command, ["\x1b[5~"]) is None
    assert press(command, "\x1b") is Request.EMERGENCY_STOP
    assert press(command, "x") is Request.EMERGENCY_STOP


@pytest.mark.parametrize("request_", [request for request in Request if request is not Request.WALK])
def test_a_request_other_than_to_walk_takes_the_velocity_back(command, request_):
    press(command, "w")
    key = KEYS.requests[request_][0]
    assert press(command, key) is request_
    assert command.setpoint["vx"] == 0.0


def test_an_untouched_keyboard_says_nothing(command):
    assert not command.has_velocity(0.0)
    assert not command.has_pose(0.0)
    press(command, "20")
    assert not command.has_velocity(10.0)


def test_a_velocity_is_kept_up_and_zero_is_said_for_a_second(command):
    press(command, "w", now=10.0)
    assert command.has_velocity(60.0)
    assert not command.has_pose(10.0)
    press(command, " ", now=70.0)
    assert command.has_velocity(70.9)
    assert not command.has_velocity(71.1)


def test_a_pose_is_said_for_a_second_and_holds_the_robot_as_long(command):
    press(command, "f", now=10.0)
    assert command.has_pose(10.9)
    assert command.has_velocity(10.9)
    assert not command.has_pose(11.1)
    assert not command.has_velocity(11.1)


def test_the_help_names_every_key():
    words = describe(KEYS).split()
    assert {key for _, keys in KEYS.meanings for key in keys} <= set(words)
