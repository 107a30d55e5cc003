import math

import numpy as np
import pytest

from fcnet_core.control.watchdogs import JointErrorWatchdog, tilt_problem
from fcnet_core.robot import load_robot


@pytest.fixture(params=["aliengo", "a1"])
def robot(request):
    return load_robot(request.param)


def test_tilt_counts_in_every_direction_but_not_the_heading(robot):
    beyond, within = robot.safety.max_tilt + 0.05, robot.safety.max_tilt - 0.05
    for axis in ((1, 0), (0, 1), (-0.6, 0.8)):
        for angle, trips in ((beyond, True), (within, False)):
            sine = math.sin(angle / 2)
            orientation = np.array([axis[0] * sine, axis[1] * sine, 0.0, math.cos(angle / 2)])
            assert bool(tilt_problem(robot.safety, orientation)) is trips
    assert tilt_problem(robot.safety, np.array([0.0, 0.0, 1.0, 0.0])) is None


def test_a_robot_on_its_back_is_tilted(robot):
    assert "3.14 rad" in tilt_problem(robot.safety, np.array([1.0, 0.0, 0.0, 0.0]))


def test_a_joint_that_stays_away_from_its_target_is_named(robot):
    watchdog = JointErrorWatchdog(robot.safety, 0.02)
    measured = robot.stand_pose.copy()
    measured[7] += robot.safety.max_joint_error + 0.1
    reasons = [watchdog.check(robot.stand_pose, measured) for _ in range(int(robot.safety.joint_error_time / 0.02) + 1)]
    assert reasons[:-1] == [None] * (len(reasons) - 1)
    assert "RR_thigh_joint" in reasons[-1]


def test_a_short_joint_error_passes(robot):
    watchdog = JointErrorWatchdog(robot.safety, 0.02)
    far = robot.stand_pose + robot.safety.max_joint_error + 0.1
    for _ in range(20):
        assert watchdog.check(robot.stand_pose, far) is None
        assert watchdog.check(robot.stand_pose, robot.stand_pose) is None
