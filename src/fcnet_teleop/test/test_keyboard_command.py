import pytest

from fcnet_core.names import Request
from fcnet_teleop.controls import load_remote_control
from fcnet_teleop.teleop_keyboard import KeyboardCommand, describe

KEYS = load_remote_control().keyboard


@pytest.fixture
def command(robot):
    return KeyboardCommand(KEYS, robot.commands)


def press(command, *keys, now=10.0):
    return [command.press(key, now) for key in keys][-1]


def published(command, now):
    """Whether a velocity, and whether a pose is published."""
    both = command.command(now)
    return both.velocity is not None, both.pose is not None


def test_keys_add_up_and_space_takes_the_velocity_back(command):
    assert press(command, *"waeq", "up", "\x1b[5~") is None
    assert command.setpoint["vx"] == pytest.approx(0.2)
    assert command.setpoint["vy"] == pytest.approx(0.05)
    assert command.setpoint["yaw_rate"] == 0.0
    press(command, "f", "space")
    assert command.setpoint["vx"] == 0.0
    assert command.setpoint["height"] == pytest.approx(-0.01)
    press(command, "c")
    assert command.setpoint["height"] == 0.0


def test_the_command_ends_at_the_robots_ranges(command, robot):
    for field, step in KEYS.steps.items():
        press(command, *[step.higher[0]] * 100)
        assert command.setpoint[field] == robot.commands[field].highest
        press(command, *[step.lower[0]] * 200)
        assert command.setpoint[field] == robot.commands[field].lowest


@pytest.mark.parametrize("request_", [request for request in Request if request is not Request.WALK])
def test_a_request_other_than_to_walk_takes_the_velocity_back(command, request_):
    press(command, "w")
    for key in KEYS.requests[request_.value]:
        assert press(command, key) is request_
    assert command.setpoint["vx"] == 0.0


def test_a_velocity_is_published_until_a_second_after_it_has_become_zero_and_a_pose_for_a_second(command):
    press(command, "2", "0", now=10.0)
    assert published(command, 10.0) == (False, False)
    press(command, "w", now=10.0)
    assert published(command, 10.0) == published(command, 60.0) == (True, False)
    press(command, "space", "f", now=70.0)
    assert published(command, 70.9) == (True, True)
    assert published(command, 71.1) == (False, False)


def test_the_help_names_every_key_and_both_ways_of_a_pair():
    named = set(describe(KEYS).split())
    assert {key for _, keys in KEYS.meanings for key in keys} <= named
    (sideways,) = [line.split() for line in describe(KEYS).splitlines() if line.split()[0] == "a"]
    assert sideways[:6] == ["a", "/", "d", "left", "/", "right,"]
