import math

import numpy as np
import pytest

from fcnet_core.names import Mode

UPRIGHT = np.array([0.0, 0.0, 0.0, 1.0])


FAILURES = {
    "tilted": lambda bench: bench.tilt(),
    "FL_hip_joint": lambda bench: bench.names.__setitem__(3, "something_else"),
    "not a finite number": lambda bench: bench.velocity.__setitem__(2, math.nan),
    "s old": lambda bench: bench.fall_silent(),
    "joint_states is 0.22 s old by its stamp": lambda bench: setattr(bench, "stamps", (7, 0)),
    "imu/data is 0.22 s old by its stamp": lambda bench: setattr(bench, "stamps", (0, 7)),
    "observation": lambda bench: bench.velocity.fill(1e300),  # finite, but not in single precision
    "policy": lambda bench: setattr(bench.policy, "fixed_action", np.full(12, math.nan, np.float32)),
    "emergency stop": lambda bench: bench.core.emergency_stop(),
    "FR_calf_joint has 95": lambda bench: bench.core.set_bridge_fault("temperature: FR_calf_joint has 95 deg C"),
}


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
@pytest.mark.parametrize("words", FAILURES)
def test_a_failure_while_walking_damps_and_latches(bench, robot, words):
    bench.walk()
    FAILURES[words](bench)
    bench.run(0.4)
    assert bench.core.mode is Mode.FAULT
    assert words in bench.core.fault
    assert bench.sent[-1] is None
    reached = bench.policy.observations[: -1 if words == "observation" else None]  # which the policy refused
    assert np.isfinite(np.array(reached)).all()
    bench.orientation, bench.names, bench.velocity = UPRIGHT, list(bench.robot.joint_names), np.zeros(12)
    bench.silent, bench.policy.fixed_action, bench.stamps = False, None, (0, 0)
    bench.position = robot.lie_pose.copy()
    bench.core.set_bridge_fault("")
    bench.run(1.0, vx=0.5)
    assert bench.core.mode is Mode.FAULT
    assert bench.sent[-1] is None
    bench.core.reset()
    bench.walk()


@pytest.mark.parametrize(
    ("rate", "motion"), [(50.0, ""), (50.0, "stand"), (50.0, "walk"), (50.0, "lie_down"), (500.0, "walk")]
)
@pytest.mark.parametrize(
    ("stop_following", "words"),
    [("refuse", "a damp must come first"), ("follow_another", "/other"), ("follow_nobody", "")],
)
def test_a_controller_whose_targets_are_not_followed_goes_to_fault_after_100_ms(
    make_bench, rate, motion, stop_following, words
):
    bench = make_bench(rate=rate)
    bench.run(0.1)
    bench.core.following.owner = ("", False)
    bench.core.stand_up(bench.now)
    bench.run(0.06)
    bench.core.following.owner = ("/controller 0123", True)
    bench.run(1.2 if motion else 0.0)
    if motion in ("walk", "lie_down"):
        getattr(bench.core, motion)()
    bench.run(0.1)
    mode = bench.core.mode
    getattr(bench, stop_following)()
    bench.run(0.08)
    assert bench.core.mode is mode
    bench.run(0.06)
    assert bench.core.mode is Mode.FAULT
    assert words in bench.core.fault
    assert bench.sent[-1] is None


def test_a_bridge_that_hesitates_to_follow_and_one_that_never_begins(bench):
    bench.run(0.1)
    for hesitation, mode in ((0.4, Mode.STANDING_UP), (0.6, Mode.FAULT)):
        bench.follow_nobody()
        bench.core.stand_up(bench.now)
        bench.run(hesitation)
        bench.core.following.owner = ("/controller 0123", True)
        bench.run(0.1)
        assert bench.core.mode is mode
        bench.core.make_passive()


def test_a_short_refusal_passes(bench):
    bench.walk()
    for _ in range(10):
        bench.refuse()
        bench.run(0.08)
        bench.core.following.refusal = ""
        bench.run(bench.period)
    assert bench.core.mode is Mode.WALKING
