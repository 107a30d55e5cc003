"""The controller brings every robot to its feet and back, whatever its joints are."""

import numpy as np
import pytest
from made_robots import every_robot

from fcnet_core.control.controller import Controller
from fcnet_core.control.runner import JointLimiter, PolicyRunner
from fcnet_core.errors import FcnetError
from fcnet_core.names import Mode
from fcnet_core.observation import RobotState, velocity_interface

PERIOD = 0.02
LEVEL = np.array([0.0, 0.0, 0.0, 1.0])


@pytest.mark.parametrize("robot", every_robot(), ids=lambda robot: robot.name)
def test_a_robot_stands_up_and_lies_down_within_its_limits_and_rates(robot) -> None:
    limiter = JointLimiter(robot, PERIOD)
    runner = PolicyRunner(None, velocity_interface(robot), limiter)
    start = robot.stand_pose + 0.2 if robot.lie_pose is None else robot.lie_pose
    controller = Controller(robot, RobotState(start, 0 * start, LEVEL, np.zeros(3)), runner)

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
