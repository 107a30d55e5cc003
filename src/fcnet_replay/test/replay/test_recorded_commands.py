"""Who moved a recorded robot is decided as the controller decides it."""

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
def asked(write_bag):
    """One field of what was asked for, at these times from the beginning of the walk [s]."""

    def asked(field, times, said=(), **settings):
        run = read_run(open_bag(write_bag(edit=lambda messages: [*messages, *said], **settings)))
        return run.setpoints.at(EPOCH + np.array(times))[:, field].tolist()

    return asked


def test_before_the_first_command_and_after_the_last_has_grown_stale_nothing_is_asked(asked) -> None:
    assert asked(FORWARD, [-0.1, 0.1, 4.4, 4.5]) == [0.0, PLANNER, PLANNER, 0.0]


def test_the_more_important_source_is_heard_alone_until_it_is_silent(asked) -> None:
    said = [(time, "keyboard/cmd_vel", twist(-0.2)) for time in (1.0, 1.3)]
    assert asked(FORWARD, [0.99, 1.01, 1.79, 1.81], said) == [PLANNER, -0.2, -0.2, PLANNER]


def test_the_controllers_own_timeout_counts(asked) -> None:
    said = [(1.0, "keyboard/cmd_vel", twist(-0.2))]
    slow = {"fcnet.parameters": json.dumps({"cmd_vel_timeout": 2.0})}
    assert asked(FORWARD, [2.9, 3.1], said, custom=slow) == [-0.2, PLANNER]


def test_a_pose_stays_and_is_lost_while_somebody_more_important_speaks(asked) -> None:
    said = [
        (0.5, "cmd_pose", pose(-0.05)),
        (1.0, "keyboard/cmd_vel", twist(-0.2)),
        (1.1, "cmd_pose", pose(-0.1)),
    ]
    assert asked(HEIGHT, [0.4, 0.6, 3.0], said) == [0.0, -0.05, -0.05]


def test_what_was_asked_before_a_fault_is_forgotten(asked) -> None:
    said = [
        (0.5, "cmd_pose", pose(-0.05)),
        (1.0, "controller/mode", text("fault")),
        (2.0, "controller/mode", text("passive")),
    ]
    assert asked(HEIGHT, [1.9, 2.1], said) == [-0.05, 0.0]


def test_the_style_is_the_controllers_parameter(asked) -> None:
    style = {"fcnet.parameters": json.dumps({"foot_clearance": 0.02, "stance_width": "wide"})}
    assert asked(CLEARANCE, [1.0], custom=style) == [0.02]


def test_numbers_that_cannot_be_commands_count_as_the_controller_counts_them(asked) -> None:
    said = [
        (1.0, "keyboard/cmd_vel", twist(np.nan)),
        (1.0, "cmd_pose", pose(np.inf)),
    ]
    assert asked(FORWARD, [1.1], said) == [0.0]
    assert asked(HEIGHT, [1.1], said) == [0.0]
