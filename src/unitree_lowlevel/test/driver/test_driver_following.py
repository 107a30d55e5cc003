"""When motors follow targets, of whom, with which gains, and how long after the last ones; and the limiter, the last
step of a command, which keeps it inside limits, slew, gains and torque.
"""

import logging

import numpy as np
import pytest

from unitree_lowlevel.codec import SERVO
from unitree_lowlevel.driver import MOST_ARMED, CommandLimiter, DriverMode

NEAR = 0.05  # [rad]


def test_an_active_driver_with_a_state_follows_after_a_damp_and_reports_before_what_is_missing(bench):
    driver = bench.driver
    driver.damp()
    bench.run(0.2)
    assert driver.target_refusal  # not active
    assert bench.send(bench.position) is not None
    driver.activate()
    bench.run(1.0, bench.position)  # the damp before the activation does not count, and silence is none
    bench.run(1.0)
    bench.run(0.1, bench.position)
    assert bench.damped
    assert driver.target_refusal
    assert driver.warnings
    driver.damp()
    for bench.silent in (False, True, False):
        bench.run(0.2)
        assert (driver.target_refusal != "") == bench.silent
        assert driver.mode is (DriverMode.WAITING if bench.silent else DriverMode.DAMPING)
        if bench.silent:
            assert bench.send(bench.position) is not None
            driver.damp()
    bench.run(0.02, bench.position)
    assert bench.sent[-1].stiffness.all()
    assert driver.target_refusal == ""
    bench.run(0.2)
    assert driver.target_refusal  # a damp again
    bench.following().driver.deactivate()
    bench.cycle()
    assert bench.damped


def test_positions_reach_each_sides_limits_and_stay_inside(bench):
    robot = bench.robot
    goals = {"upper": robot.upper + 5.0, "lower": robot.lower - 5.0}
    bench.following()
    for name, goal in goals.items():
        while np.abs(bench.position - getattr(robot, name)).max() > 1e-9:
            bench.run(0.02, bench.position + np.clip(goal - bench.position, -0.3, 0.3))
            assert bench.driver.mode is DriverMode.FOLLOWING
    stiff = np.array([command.position for command in bench.sent if command.stiffness.any()])
    np.testing.assert_array_equal(stiff.max(axis=0), robot.upper)
    np.testing.assert_array_equal(stiff.min(axis=0), robot.lower)


def test_the_first_target_must_be_where_the_joints_are(bench):
    farthest = bench.robot.safety.max_start_error * np.eye(12)[2]
    bench.awake()
    assert bench.send(bench.position + 1.01 * farthest) is not None
    bench.run(0.5, bench.position)  # who has been refused must damp, before anything may move
    assert bench.damped
    bench.driver.damp()
    assert bench.send(bench.position + 0.99 * farthest) is None


@pytest.mark.parametrize("last", [None, np.full(12, np.nan), np.zeros(5)], ids=["none", "not finite", "too few"])
def test_when_targets_end_or_are_no_targets_the_robot_is_damped_within_a_tenth_of_a_second_without_a_trip(bench, last):
    bench.following()
    bench.driver.take_events()
    assert bench.cycle().stiffness.all()
    ended = bench.now
    while not bench.damped:
        assert last is None or bench.send(last) is not None
        bench.cycle()
        assert bench.now - ended < 0.1
    assert bench.driver.trip is None
    assert [level for level, _ in bench.driver.take_events()] == [logging.INFO]
    bench.run(0.1, bench.position)
    assert bench.damped
    bench.driver.damp()
    bench.run(0.02, bench.position)
    assert not bench.damped


def test_targets_are_as_old_as_their_arrival_and_too_old_ones_are_refused(bench):
    timeout = bench.robot.safety.command_timeout
    bench.following().run(0.05)
    bench.send(bench.position, age=0.04)
    bench.run(timeout - 0.044)
    assert bench.sent[-1].stiffness.all()
    assert bench.send(bench.position, age=timeout + 0.001) is not None
    bench.run(0.006)
    assert bench.damped
    for age in (1.0, float("nan")):
        bench.driver.damp()
        assert bench.send(bench.position, age=age) is not None
    bench.following()
    bench.send(bench.position, age=-1000.0)
    bench.run(0.1)
    assert bench.damped  # targets from the future are no newer than now


@pytest.mark.parametrize("pause", [0.046, 0.06, 0.5, 3.0])
@pytest.mark.parametrize("free_running", [True, False], ids=["free_running", "answering"])
def test_a_loop_that_stood_still_damps_and_needs_a_damp_to_follow_softly(bench, pause, free_running):
    bench.following()
    bench.now += pause
    bench.send(bench.position)
    bench.silent = not free_running  # a board that answers has nothing to answer yet
    bench.cycle()
    bench.silent = False
    is_short = pause < bench.robot.safety.max_cycle_gap - 0.002
    assert bench.damped != is_short
    bench.run(0.5, bench.position)
    assert bench.damped != is_short
    assert bench.driver.trip is None
    if not is_short:
        bench.driver.damp()
        bench.run(0.02, bench.position)
        assert 0.0 < bench.sent[-1].stiffness.max() < 0.1 * bench.robot.gains.kp


@pytest.mark.parametrize(
    ("kp", "kd", "named"),
    [
        (500.0, 1.0, "kp"),
        (30.0, 50.0, "kd"),
        (np.nan, 1.0, "kp"),
        (30.0, -1.0, "kd"),
        (np.full(3, 30.0), 1.0, "kp"),
        (80.0, 0.03, "kd"),  # too little damping on the wire
        (60.0, 0.4, "kd"),
        (80.0, np.where(np.arange(12) == 8, 0.06, 1.0), "kd"),
        # and gains of policies in the field
        *((kp, kd, None) for kp, kd in ((20.0, 0.5), (25.0, 0.5), (25.0, 2.0), (50.0, 1.0), (60.0, 2.0), (80.0, 3.0))),
    ],
)
def test_gains_beyond_the_bounds_or_with_too_little_damping_are_refused_and_nothing_is_followed(bench, kp, kd, named):
    bench.awake()
    refusal = bench.driver.set_gains(kp, kd)
    if named:
        assert refusal.startswith(named)
        assert refusal in bench.send(bench.position)
        assert bench.driver.set_gains(30.0, 1.0) is None
        bench.driver.damp()
    else:
        assert refusal is None
    assert bench.send(bench.position) is None


def test_gains_offered_while_following_count_when_joints_begin_to_follow_next(bench):
    bench.following()
    assert bench.driver.set_gains(20.0, np.full(12, 1.0)) is None
    bench.run(0.1, bench.position)
    assert (bench.sent[-1].stiffness == bench.robot.gains.kp).all()
    bench.driver.damp()
    bench.run(1.0, bench.position)
    assert (bench.sent[-1].stiffness == 20.0).all()
    assert (bench.sent[-1].damping == 1.0).all()
    refusal = bench.driver.set_gains(np.nan, 1.0)
    bench.run(0.1, bench.position)
    assert (bench.sent[-1].stiffness == 20.0).all()
    bench.driver.damp()
    assert refusal in bench.send(bench.position)


@pytest.fixture
def owned(bench):
    """A robot that follows the targets of "walker"."""
    bench.awake().driver.damp("walker")
    assert bench.driver.owner == ""
    bench.run(0.7, bench.position, source="walker")
    assert bench.driver.owner == "walker"
    bench.driver.take_events()
    return bench


def test_targets_of_another_are_refused_and_both_are_named(owned):
    lying = owned.position.copy()
    for _ in range(40):
        owned.run(0.01, lying, source="walker")
        refusal = owned.send(lying + NEAR, "intruder")
        assert "walker" in refusal
        assert "intruder" in refusal
        owned.run(0.01)
    assert owned.driver.owner == "walker"
    np.testing.assert_array_equal(owned.position, lying)
    assert owned.driver.refused == 40
    assert any("intruder" in warning for warning in owned.driver.warnings)


def test_a_source_that_damps_all_the_time_disturbs_nobody_and_keeps_nobody_stiff(owned):
    last = owned.now
    while not owned.damped:
        assert owned.driver.damp("passive") is not None
        assert owned.send(owned.position, "passive") is not None
        owned.run(0.02, owned.position, source="walker") if owned.now - last < 1.0 else owned.run(0.02)
        assert owned.now - last < 1.11
    assert owned.now - last > 1.0
    assert owned.driver.owner == ""


def test_the_owner_leaves_by_a_damp_and_another_that_is_armed_may_begin(owned):
    assert owned.driver.damp("second") is not None
    assert owned.driver.damp("walker") is None
    assert owned.send(owned.position, "second") is None
    assert owned.driver.owner == "second"
    assert [level for level, _ in owned.driver.take_events()] == [logging.INFO] * 2


def test_a_damp_arms_its_source_alone_and_the_last_sources_that_damp_are_remembered(bench):
    bench.awake()
    for number in range(MOST_ARMED + 1):
        bench.driver.damp(f"source {number}")
    for source, is_armed in (("walker", False), ("source 0", False), ("source 1", True)):
        assert (bench.send(bench.position, source) is None) == is_armed


@pytest.mark.parametrize("end", ["trip", "deactivate"])
def test_after_a_trip_or_a_deactivation_a_new_damp_must_come_first(owned, end):
    driver = owned.driver
    driver.damp("second")
    driver.emergency_stop("a test") if end == "trip" else driver.deactivate()
    owned.cycle()
    driver.damp("walker")
    driver.reset(owned.now) if end == "trip" else driver.activate()
    owned.cycle()
    assert driver.mode is DriverMode.DAMPING
    for source in ("walker", "second"):
        assert owned.send(owned.position, source) is not None


PERIOD = 0.002
RAMP = 0.01
START = 5.0
STARTED = 100.0  # [s] long after the soft start
KP, KD = np.full(12, 40.0), np.full(12, 1.5)
STILL = np.zeros(12)


@pytest.fixture
def limiter(robot):
    return started(robot)


def started(robot, kp=KP, kd=KD):
    limiter = CommandLimiter(robot, PERIOD, RAMP)
    limiter.start(robot.lie_pose, kp, kd, START)
    return limiter


def follow(limiter, target, measured, velocity=STILL):
    """The command towards a target that was given long ago."""
    limiter.aim(target, STARTED - 1.0)
    return limiter.command(limiter.target(STARTED), measured, velocity, STARTED)


@pytest.mark.parametrize(("distance", "speed"), [(0.01, 0.0), (0.3, 8.0)])
def test_a_command_within_the_limits_passes_unchanged(limiter, robot, distance, speed):
    command = follow(limiter, robot.lie_pose + 0.01, robot.lie_pose + 0.01 - distance, np.full(12, speed))
    np.testing.assert_array_equal(command.position, robot.lie_pose + 0.01)
    np.testing.assert_array_equal(command.stiffness, KP)
    np.testing.assert_array_equal(command.damping, KD)
    assert (command.mode == SERVO).all()
    assert not command.velocity.any()
    assert not command.torque.any()


def test_it_starts_inside_the_limits_where_the_joints_are_not(limiter, robot):
    limiter.start(robot.upper + 0.05, KP, KD, START)
    np.testing.assert_array_equal(limiter.target(START), robot.upper)
    np.testing.assert_array_equal(limiter.command(robot.upper, robot.upper, STILL, START).position, robot.upper)


def test_gains_are_cut_to_the_robots_bounds(robot):
    command = follow(started(robot, np.full(12, 1e4), np.full(12, 1e4)), robot.lie_pose, robot.lie_pose)
    assert (command.stiffness == robot.safety.max_kp).all()
    assert (command.damping == robot.safety.max_kd).all()


def test_a_ramp_takes_the_interval_of_the_targets_up_to_its_longest(limiter, robot):
    def moved(now):
        return limiter.target(now)[0] - robot.lie_pose[0]

    limiter.aim(robot.lie_pose + 1.0, START)
    assert moved(5.005) == pytest.approx(0.5)
    assert moved(5.01) == moved(6.0) == 1.0
    limiter.aim(robot.lie_pose + 2.0, 5.02)
    assert moved(5.025) == pytest.approx(1.5)
    limiter.aim(robot.lie_pose, 5.025)
    assert moved(5.025) == pytest.approx(1.5)
    assert moved(5.0275) == pytest.approx(0.75)
    assert moved(5.0301) == 0.0
    limiter.aim(robot.lie_pose + 0.5, 5.0301)
    limiter.aim(robot.lie_pose + 1.0, 5.0301)  # two at once are no division by zero
    assert moved(5.0301) == 1.0


def test_a_soft_start_goes_from_damping_to_the_gains(limiter, robot):
    duration, holding = robot.safety.soft_start, robot.gains.damping
    for elapsed, share in ((-0.1, 0.0), (0.0, 0.0), (0.5, 0.5), (1.0, 1.0), (4.0, 1.0)):
        command = limiter.command(robot.lie_pose, robot.lie_pose, STILL, START + elapsed * duration)
        np.testing.assert_allclose(command.stiffness, share * KP)
        np.testing.assert_allclose(command.damping, holding + share * (KD - holding))
