import math

import numpy as np
import pytest

from fcnet_core.errors import FcnetError
from fcnet_core.names import Mode

UPRIGHT = np.array([0.0, 0.0, 0.0, 1.0])


def fail_joint_name(bench):
    bench.names[3] = "something_else"


def fail_nan(bench):
    bench.velocity[2] = math.nan


def fail_velocity(bench):
    bench.velocity[:] = 1e300  # finite, but not in single precision


def fail_leg(bench):
    bench.blocked = 2


def fail_policy(bench):
    bench.policy.fixed_action = np.full(12, math.nan, np.float32)


def fail_emergency(bench):
    bench.core.emergency_stop()


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (lambda bench: bench.tilt(), "tilted"),
        (fail_joint_name, "FL_hip_joint"),
        (fail_nan, "not a finite number"),
        (lambda bench: bench.fall_silent(), "s old"),
        (fail_velocity, "observation"),
        (fail_leg, "FR_calf_joint"),
        (fail_policy, "policy"),
        (fail_emergency, "emergency stop"),
    ],
)
def test_a_failure_while_walking_damps_and_latches(bench, robot, failure, words):
    bench.walk()
    failure(bench)
    bench.run(0.4)
    assert bench.core.mode is Mode.FAULT
    assert words in bench.core.fault
    assert bench.sent[-1] is None
    reached = bench.policy.observations[: -1 if failure is fail_velocity else None]  # which the policy refused
    assert np.isfinite(np.array(reached)).all()
    bench.orientation, bench.names, bench.velocity = UPRIGHT, list(bench.robot.joint_names), np.zeros(12)
    bench.silent, bench.policy.fixed_action, bench.blocked = False, None, None
    bench.position = robot.lie_pose.copy()
    bench.run(1.0, vx=0.5)
    assert bench.core.mode is Mode.FAULT
    assert bench.sent[-1] is None
    bench.core.reset()
    bench.walk()


def test_a_fault_of_the_robots_bridge_damps_and_lasts_until_bridge_and_controller_are_reset(bench):
    bench.walk()
    bench.core.set_bridge_fault("temperature: FR_calf_joint has 95 deg C")
    bench.run(0.1)
    assert bench.core.mode is Mode.FAULT
    assert "FR_calf_joint has 95" in bench.core.fault
    assert bench.sent[-1] is None
    with pytest.raises(FcnetError, match="/aliengo_bridge/reset"):
        bench.core.reset()
    bench.core.set_bridge_fault("")
    bench.run(0.1)
    assert bench.core.mode is Mode.FAULT
    bench.core.reset()
    bench.walk()
