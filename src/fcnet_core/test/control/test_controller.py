"""The controller brings every robot to its feet and back, whatever its joints are, and watches its tilt and joints."""

import math

import numpy as np
import pytest
from made_robots import every_robot

from fcnet_core.control.controller import Controller, tilt_problem
from fcnet_core.control.runner import JointLimiter, PolicyRunner
from fcnet_core.errors import FcnetError
from fcnet_core.names import Mode
from fcnet_core.observation import RobotState, velocity_interface

PERIOD = 0.02
LEVEL = np.array([0.0, 0.0, 0.0, 1.0])


@pytest.fixture(params=every_robot(), ids=lambda robot: robot.name)
def robot(request):
    return request.param


@pytest.fixture
def controller(robot):
    """The controller of a robot at rest."""
    runner = PolicyRunner(None, velocity_interface(robot), JointLimiter(robot, PERIOD))
    start = robot.stand_pose + 0.2 if robot.lie_pose is None else robot.lie_pose
    return Controller(robot, RobotState(start, 0 * start, LEVEL, np.zeros(3)), runner)


def test_a_robot_stands_up_and_lies_down_within_its_limits_and_rates(robot, controller) -> None:

    def until(mode: Mode, seconds: float) -> None:
        last = controller.state.joint_position
        for cycle in range(round(seconds / PERIOD)):
            if (targets := controller.cycle(cycle * PERIOD)) is not None:
                assert ((robot.lower <= targets) & (targets <= robot.upper)).all()
                assert np.abs(targets - last).max() <= robot.safety.max_target_rate * PERIOD + 1e-9
                last = targets
                controller.state = RobotState(targets, 0 * targets, LEVEL, np.zeros(3))
        assert controller.mode is mode, controller.fault

    assert controller.cycle(0.0) is None
    if robot.recovery is None:
        with pytest.raises(FcnetError, match=robot.name):
            controller.recover(0.0)
    controller.stand_up(0.0)
    until(Mode.STANDING, 3.0)
    controller.lie_down()
    until(Mode.PASSIVE, 4.0)
    assert controller.cycle(0.0) is None


def test_tilt_counts_in_every_direction_but_not_the_heading(robot):
    beyond, within = robot.safety.max_tilt + 0.05, robot.safety.max_tilt - 0.05
    for axis in ((1, 0), (0, 1), (-0.6, 0.8)):
        for angle, trips in ((beyond, True), (within, False), (math.pi, True)):
            sine = math.sin(angle / 2)
            orientation = np.array([axis[0] * sine, axis[1] * sine, 0.0, math.cos(angle / 2)])
            assert bool(tilt_problem(robot.safety, orientation)) is trips
    assert tilt_problem(robot.safety, np.array([0.0, 0.0, 1.0, 0.0])) is None


def test_a_joint_that_stays_away_from_its_target_is_named_and_a_short_error_passes(robot, controller):
    controller.stand_up(0.0)
    for wrong in (False, True) * 20 + (True,) * int(robot.safety.joint_error_time / PERIOD):
        assert controller.cycle(0.0) is not None
        position = controller.runner.limiter.last.copy()
        position[7] += wrong * (robot.safety.max_joint_error + 0.1)
        controller.state = RobotState(position, 0 * position, LEVEL, np.zeros(3))
    assert controller.cycle(0.0) is None
    assert f"{robot.joint_names[7]} is " in controller.fault and "its target" in controller.fault


def test_a_velocity_that_is_not_renewed_counts_as_zero_after_the_timeout(controller):
    runner, state = controller.runner, controller.state
    for one, timeout in (
        (controller, 0.5),
        (Controller(runner.limiter.robot, state, runner, command_timeout=0.1), 0.1),
    ):
        one.commands.add_source("remote").set_velocity(0.5, 0.1, 0.2, 10.0)
        assert one.commands.wanted(10.0 + 0.9 * timeout)[:3].all()
        assert not one.commands.wanted(10.0 + 1.1 * timeout).any()
