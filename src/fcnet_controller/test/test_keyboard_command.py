import pytest

from fcnet_controller.keyboard_command import HELP, REQUESTS, STEPS, KeyboardCommand, Request


@pytest.fixture
def command(robot):
    return KeyboardCommand(robot.commands)


def test_keys_add_up_and_space_takes_the_velocity_back(command):
    for key in "wwaeQ":
        assert command.press(key) is None
    assert command.setpoint["vx"] == pytest.approx(0.2)
    assert command.setpoint["vy"] == pytest.approx(0.05)
    assert command.setpoint["yaw_rate"] == 0.0
    command.press("f")
    command.press(" ")
    assert command.setpoint["vx"] == 0.0
    assert command.setpoint["height"] == pytest.approx(-0.01)
    command.press("c")
    assert command.setpoint["height"] == 0.0


def test_the_command_ends_at_the_robots_ranges(command, robot):
    for key in STEPS:
        for _ in range(100):
            command.press(key)
        field, step = STEPS[key]
        limits = robot.commands[field]
        assert command.setpoint[field] == (limits.highest if step > 0 else limits.lowest)


def test_an_arrow_drives_and_only_a_lone_escape_stops(command):
    assert command.press("\x1b[A") is None
    assert command.setpoint["vx"] == pytest.approx(0.1)
    assert command.press("\x1b[5~") is None
    assert command.press("\x1b") is Request.EMERGENCY_STOP
    assert command.press("x") is Request.EMERGENCY_STOP


@pytest.mark.parametrize("key", [key for key, request in REQUESTS.items() if request is not Request.WALK])
def test_a_request_other_than_to_walk_takes_the_velocity_back(command, key):
    command.press("w")
    command.press(key)
    assert command.setpoint["vx"] == 0.0


def test_the_help_names_every_key():
    for key in (*STEPS, *REQUESTS):
        assert key in HELP or key == "\x1b"
