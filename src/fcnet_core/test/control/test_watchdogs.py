import math

import numpy as np
import pytest
from made_robots import every_robot

from fcnet_core.control.controller import JointErrorWatchdog, tilt_problem


@pytest.fixture(params=every_robot(), ids=lambda robot: robot.name)
def robot(request):
    return request.param


def test_tilt_counts_in_every_direction_but_not_the_heading(robot):
    beyond, within = robot.safety.max_tilt + 0.05, robot.safety.max_tilt - 0.05
    for axis in ((1, 0), (0, 1), (-0.6, 0.8)):
        for angle, trips in ((beyond, True), (within, False), (math.pi, True)):
            sine = math.sin(angle / 2)
            orientation = np.array([axis[0] * sine, axis[1] * sine, 0.0, math.cos(angle / 2)])
            assert bool(tilt_problem(robot.safety, orientation)) is trips
    assert tilt_problem(robot.safety, np.array([0.0, 0.0, 1.0, 0.0])) is None


def test_a_joint_that_stays_away_from_its_target_is_named_and_a_short_error_passes(robot):
    watchdog, stand = JointErrorWatchdog(robot, 0.02), robot.stand_pose
    away = stand.copy()
    away[7] += robot.safety.max_joint_error + 0.1
    for _ in range(20):
        assert watchdog.check(stand, away) is None
        assert watchdog.check(stand, stand) is None
    reasons = [watchdog.check(stand, away) for _ in range(int(robot.safety.joint_error_time / 0.02) + 1)]
    assert reasons[:-1] == [None] * (len(reasons) - 1)
    assert robot.joint_names[7] in reasons[-1]
