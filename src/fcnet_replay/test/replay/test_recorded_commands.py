"""Between recorded sources of commands is decided as the controller decides."""

from __future__ import annotations

import json

import numpy as np
import pytest
from made_bag import EPOCH, pose, text, twist

from fcnet_core.robot import SETPOINT_FIELDS
from fcnet_replay.bags.bag import open_bag
from fcnet_replay.read_run import read_run

FORWARD, HEIGHT, CLEARANCE = (SETPOINT_FIELDS.index(field) for field in ("vx", "height", "clearance"))
PLANNER = 0.5  # [m/s] on cmd_vel, twenty times a second, for four seconds


@pytest.fixture
def setpoints(write_bag):
    """One field of the setpoints at these times from the beginning of the walk [s]."""

    def setpoints(field, times, commands=(), **settings):
        run = read_run(open_bag(write_bag(edit=lambda messages: [*messages, *commands], **settings)))
        return run.setpoints.at(EPOCH + np.array(times))[:, field].tolist()

    return setpoints


def test_before_the_first_command_and_after_the_last_is_stale_the_setpoint_is_zero(setpoints) -> None:
    assert setpoints(FORWARD, [-0.1, 0.1, 4.4, 4.5]) == [0.0, PLANNER, PLANNER, 0.0]


def test_the_more_important_source_is_in_control_alone_until_its_commands_are_stale(setpoints) -> None:
    commands = [(time, "keyboard/cmd_vel", twist(-0.2)) for time in (1.0, 1.3)]
    assert setpoints(FORWARD, [0.99, 1.01, 1.79, 1.81], commands) == [PLANNER, -0.2, -0.2, PLANNER]


def test_the_controllers_own_timeout_counts(setpoints) -> None:
    commands = [(1.0, "keyboard/cmd_vel", twist(-0.2))]
    slow = {"fcnet.parameters": json.dumps({"cmd_vel_timeout": 2.0})}
    assert setpoints(FORWARD, [2.9, 3.1], commands, custom=slow) == [-0.2, PLANNER]


def test_a_pose_stays_and_is_lost_while_a_more_important_source_is_in_control(setpoints) -> None:
    commands = [
        (0.5, "cmd_pose", pose(-0.05)),
        (1.0, "keyboard/cmd_vel", twist(-0.2)),
        (1.1, "cmd_pose", pose(-0.1)),
    ]
    assert setpoints(HEIGHT, [0.4, 0.6, 3.0], commands) == [0.0, -0.05, -0.05]


def test_commands_from_before_a_fault_are_forgotten(setpoints) -> None:
    commands = [
        (0.5, "cmd_pose", pose(-0.05)),
        (1.0, "controller/mode", text("fault")),
        (2.0, "controller/mode", text("passive")),
    ]
    assert setpoints(HEIGHT, [1.9, 2.1], commands) == [-0.05, 0.0]


def test_the_style_is_the_controllers_parameter(setpoints) -> None:
    style = {"fcnet.parameters": json.dumps({"foot_clearance": 0.02, "stance_width": "wide"})}
    assert setpoints(CLEARANCE, [1.0], custom=style) == [0.02]


def test_numbers_that_cannot_be_commands_count_as_the_controller_counts_them(setpoints) -> None:
    commands = [
        (1.0, "keyboard/cmd_vel", twist(np.nan)),
        (1.0, "cmd_pose", pose(np.inf)),
    ]
    assert setpoints(FORWARD, [1.1], commands) == [0.0]
    assert setpoints(HEIGHT, [1.1], commands) == [0.0]
