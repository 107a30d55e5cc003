"""One robot, a batch and recorded steps take the same path from setpoints to targets, within limits and slew."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_robots import every_robot
from msgspec import structs

from fcnet_core.control.runner import JointLimiter, PolicyRunner, recorded_targets
from fcnet_core.errors import FcnetError, NonFiniteObservation
from fcnet_core.files import converted
from fcnet_core.model_file import load_model
from fcnet_core.observation import LAYOUT, Known, PolicyInterface, RobotState, velocity_interface
from fcnet_core.observation.terms import LinearVelocity
from fcnet_core.policy import load_policy
from fcnet_core.robot import load_robot

PERIOD, ROBOT = 0.02, load_robot("aliengo")
SETPOINTS = np.array([[0.5, *np.zeros(8)], [-0.3, 0.1, *np.zeros(7)]])


class Hurrying:
    """A policy that asks for more than the limiter lets pass, in the direction of the commanded velocity."""

    def reset(self, mask=None):
        pass

    def step(self, observation):
        return observation[..., LAYOUT["last_action"]] + 9.0 * observation[..., LAYOUT["command"]][..., :1]


class Constant(Hurrying):
    """A policy with the same output in every step."""

    def __init__(self, *output):
        self.output = np.array(output, dtype=np.float32)

    def step(self, observation):
        self.seen = observation
        return self.output


def runner_of(batch=None, policy=None, period=PERIOD):
    interface = velocity_interface(ROBOT, 1.0 / PERIOD)
    return PolicyRunner(policy or Hurrying(), interface, JointLimiter(ROBOT, period, batch))


def standing(*leading):
    parts = ROBOT.stand_pose, np.zeros(12), np.array([0.0, 0.0, 0.0, 1.0]), np.zeros(3)
    return RobotState(*(np.broadcast_to(part, (*leading, len(part))) for part in parts))


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
    runner = runner_of(policy=Constant(*[np.nan] * 12))
    before = runner.limiter.last
    with pytest.raises(FcnetError):
        runner.targets(standing())
    np.testing.assert_array_equal(runner.limiter.last, before)
    assert runner.steps == 0


def test_after_a_bad_observation_neither_the_clock_nor_the_memory_has_changed():
    model, bad = load_model("aliengo"), standing()
    bad.joint_velocity = np.full(12, np.nan)
    runner, untouched = (runner_of(policy=load_policy(model)) for _ in range(2))
    for _ in range(25):
        for _ in range(3):
            runner.take_command(SETPOINTS[0])
            with pytest.raises(NonFiniteObservation):
                runner.targets(bad)
        untouched.take_command(SETPOINTS[0])
        np.testing.assert_array_equal(runner.targets(standing()), untouched.targets(standing()))


@pytest.mark.parametrize("rate", [40.0, 75.0, 25.0, 1e-9])
def test_a_control_rate_that_is_no_multiple_of_the_policys_is_refused(rate):
    with pytest.raises(ValueError, match="50 Hz"):
        runner_of(period=1.0 / rate)


def interface(**section):
    return converted({"rate": 10, **section}, PolicyInterface)


def test_commands_and_vectors_need_no_limiter_and_come_back_as_what_was_sent():
    terms = [{"term": "last_action", "of": of, "age": age} for of in ("sent", "output") for age in (1, 2)]
    drive = {"kind": "command", "fields": ["vx", "yaw_rate"], "scale": [2.0, 0.5], "clip": 1.0}
    policy = Constant(3.0, -0.5)
    runner = PolicyRunner(policy, interface(action=drive, inputs={"observation": {"terms": terms}}), provides=())
    for seen in ([0] * 8, [2, -0.25, 0, 0, 1, -0.5, 0, 0], [2, -0.25] * 2 + [1, -0.5] * 2):
        np.testing.assert_allclose(runner.targets({}), [2.0, -0.25])
        assert policy.seen.tolist() == seen
    runner.reset()
    runner.targets({})
    assert policy.seen.tolist() == [0] * 8
    chosen = {"kind": "vector", "size": 1, "table": [[0.0], [5.0], [7.0]]}
    section = {"action": chosen, "inputs": {"observation": {"terms": [{"term": "last_action", "of": "index"}]}}}
    runner = PolicyRunner(policy := Constant(0.1, 0.9, 0.2), interface(**section), provides=())
    assert (runner.targets({}), policy.seen.tolist()) == ([5.0], [3])
    assert (runner.targets({}), policy.seen.tolist()) == ([5.0], [1])
    with pytest.raises(FcnetError, match="joint"):
        _ = runner.limiter


def test_outputs_become_targets_of_the_named_joints_and_the_others_stand():
    knees = {"joints": ["RL_calf_joint", "FR_calf_joint"], "default_pose": -1.4, "kp": 60.0, "kd": 2.0}
    action = {"kind": "joint_position", "scale": [0.1, 0.2], "clip": 2.0, "max_torque": 6.0}
    terms = [{"term": "joint_position", "form": "relative"}]
    section = knees | {"action": action, "inputs": {"observation": {"terms": terms}}}
    policy = Constant(1.0, -9.0)
    runner = PolicyRunner(policy, interface(**section, robot="aliengo"), JointLimiter(ROBOT, 0.1))
    wanted = runner.act(runner.observe(standing()))
    expected = ROBOT.stand_pose.copy()
    expected[[11, 2]] = -1.4, -1.6  # within 0.1 of the measured -1.5: 60 Nm/rad x 0.1 rad = 6 Nm
    np.testing.assert_allclose(wanted, expected)
    np.testing.assert_allclose(policy.seen, [-0.1, -0.1], rtol=1e-5)


def test_a_signal_that_nobody_provides_is_refused_with_its_term():
    walking = velocity_interface(ROBOT, 1.0 / PERIOD)
    seen = structs.replace(walking.inputs["observation"], terms=(LinearVelocity(),))
    with pytest.raises(FcnetError, match="linear_velocity"):
        PolicyRunner(None, structs.replace(walking, inputs={"observation": seen}), JointLimiter(ROBOT, PERIOD))


STEPS, COLD = 90, 80


def test_a_cold_start_in_a_recording_clears_the_memory() -> None:
    rng = np.random.default_rng(0)
    position = ROBOT.stand_pose + rng.normal(0.0, 0.1, (STEPS, 12))
    arrays = position, 0.0 * position, np.tile([0.0, 0.0, 0.0, 1.0], (STEPS, 1)), rng.normal(size=(STEPS, 3))
    setpoint, clock = np.zeros((STEPS, 9)), np.zeros(STEPS)

    def targets(rows: slice, cold: list[int]) -> np.ndarray:
        state = RobotState(*(array[rows] for array in arrays))
        known = Known(setpoint[rows], clock[rows], clock[rows] > 0, (position[rows], position[rows]))
        starts = np.isin(np.arange(STEPS)[rows], cold)
        return recorded_targets(load_model("aliengo"), ROBOT, PERIOD, state, known, starts)

    whole, warm = (targets(slice(None), cold) for cold in ([0, COLD], [0]))
    np.testing.assert_allclose(whole[COLD:], targets(slice(COLD, None), [COLD]), atol=1e-6, rtol=0)
    assert np.abs(whole[COLD:] - warm[COLD:]).max() > 1e-4


ROBOTS = every_robot()


@st.composite
def motions(draw):
    """A robot, its joint positions and the targets of several periods."""
    robot = draw(st.sampled_from(ROBOTS))
    joints = len(robot.joint_names)
    start = draw(st.lists(st.floats(-4, 4), min_size=joints, max_size=joints))
    anything = st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=joints, max_size=joints)
    return robot, start, draw(st.lists(anything, max_size=8))


@settings(max_examples=200)
@given(motions())
def test_whatever_is_wanted_the_target_is_finite_within_limits_and_slew(motion):
    robot, start, wanted = motion
    limiter = JointLimiter(robot, PERIOD)
    limiter.start(start)
    last = limiter.last
    for target in wanted:
        sent = limiter.limit(target)
        assert np.isfinite(sent).all()
        assert ((robot.lower <= sent) & (sent <= robot.upper)).all()
        assert np.abs(sent - last).max() <= robot.safety.max_target_rate * PERIOD + 1e-9
        last = sent


@pytest.mark.parametrize("robot", ROBOTS, ids=lambda robot: robot.name)
def test_a_near_target_passes_a_far_one_is_reached_at_the_allowed_rate_and_without_a_number_a_joint_stays(robot):
    limiter = JointLimiter(robot, PERIOD)
    limiter.start(robot.stand_pose)
    wanted = robot.stand_pose + 0.1
    wanted[4] = np.nan
    sent = limiter.limit(wanted)
    assert sent[4] == robot.stand_pose[4]
    np.testing.assert_allclose(np.delete(sent, 4), np.delete(wanted, 4))
    limiter.start(robot.lower)
    step = robot.safety.max_target_rate * PERIOD
    first = limiter.limit(robot.upper)
    np.testing.assert_allclose(first, np.minimum(robot.lower + step, robot.upper))
    for _ in range(20):
        limiter.limit(robot.upper)
    np.testing.assert_allclose(limiter.last, robot.upper)
