"""One robot and a batch take the same path from setpoints to targets."""

from types import SimpleNamespace

import numpy as np
import pytest

from fcnet_core.control.runner import JointLimiter, PolicyRunner
from fcnet_core.errors import FcnetError
from fcnet_core.observation import LAYOUT, velocity_interface
from fcnet_core.robot import load_robot

PERIOD, ROBOT = 0.02, load_robot("aliengo")
SETPOINTS = np.array([[0.5, *np.zeros(8)], [-0.3, 0.1, *np.zeros(7)]])


class Hurrying:
    """A policy that asks for more than the limiter lets pass, in the direction of the commanded velocity."""

    def __init__(self, action=None):
        self.action = action

    def reset(self, mask=None):
        pass

    def step(self, observation):
        wanted = observation[..., LAYOUT["last_action"]] + 9.0 * observation[..., LAYOUT["command"]][..., :1]
        return wanted if self.action is None else self.action


def runner_of(batch=None, policy=None, period=PERIOD):
    interface = velocity_interface(ROBOT, 1.0 / PERIOD)
    return PolicyRunner(policy or Hurrying(), interface, JointLimiter(ROBOT, period, batch))


def standing(*leading):
    return SimpleNamespace(
        orientation=np.broadcast_to([0.0, 0.0, 0.0, 1.0], (*leading, 4)),
        angular_velocity=np.zeros((*leading, 3)),
        joint_position=np.broadcast_to(ROBOT.stand_pose, (*leading, 12)),
        joint_velocity=np.zeros((*leading, 12)),
    )


def test_each_robot_of_a_batch_gets_the_targets_that_it_gets_alone_also_after_a_reset_of_its_own():
    batch, alone = runner_of(2), [runner_of(), runner_of()]
    for cycle in range(12):
        if cycle == 6:
            batch.reset(second := np.array([False, True]))
            batch.limiter.start(np.tile(ROBOT.stand_pose, (2, 1)), second)
            alone[1].reset()
            alone[1].limiter.start(ROBOT.stand_pose)
        batch.take_command(SETPOINTS)
        targets = batch.targets(standing(2))
        for robot, (runner, setpoint) in enumerate(zip(alone, SETPOINTS, strict=True)):
            runner.take_command(setpoint)
            np.testing.assert_array_equal(runner.targets(standing()), targets[robot])
            for name in ("setpoint", "phase", "walking"):
                np.testing.assert_array_equal(getattr(runner, name), getattr(batch, name)[robot])
            np.testing.assert_array_equal(runner.limiter.previous, batch.limiter.previous[robot])
    assert np.ptp(targets, axis=0).max() > 0.1


def test_an_action_that_is_not_finite_is_never_sent():
    runner = runner_of(policy=Hurrying(np.full(12, np.nan)))
    before = runner.limiter.last
    with pytest.raises(FcnetError):
        runner.targets(standing())
    np.testing.assert_array_equal(runner.limiter.last, before)
    assert runner.steps == 0


@pytest.mark.parametrize("rate", [40.0, 75.0, 25.0, 1e-9])
def test_a_control_rate_that_is_no_multiple_of_the_policys_is_refused(rate):
    with pytest.raises(ValueError, match="50 Hz"):
        runner_of(period=1.0 / rate)
