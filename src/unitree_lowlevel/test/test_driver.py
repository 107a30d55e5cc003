"""The driver lets motors follow only what is safe, and lets go at once when anything is not."""

from __future__ import annotations

import re

import numpy as np
import pytest

from unitree_lowlevel.driver import Phase
from unitree_lowlevel.low_command import POSITION_STOP
from unitree_lowlevel.wireless_remote import RemoteState, encode_remote

STOP = RemoteState(frozenset({"L2", "B"}))
ON_ITS_SIDE = np.array([np.sin(0.7), 0.0, 0.0, np.cos(0.7)])


def test_without_a_state_the_motors_are_damped_and_targets_refused(bench):
    bench.silent = True
    bench.awake()
    assert bench.damped
    assert bench.driver.phase is Phase.WAITING
    assert "no state has arrived" in bench.send(bench.robot.lie_pose)
    bench.turn()
    assert bench.damped


def test_a_state_ends_the_waiting_and_its_absence_begins_it_again(bench):
    bench.turn()
    assert bench.driver.phase is Phase.DAMPING
    bench.silent = True
    bench.run(0.2)
    assert bench.driver.phase is Phase.WAITING
    assert bench.driver.trip is None


def test_damping_has_no_position(bench):
    assert (bench.turn().position == POSITION_STOP).all()
    assert bench.damped


def test_targets_are_followed_by_an_active_driver_only(bench):
    bench.run(0.2)
    assert "not active" in bench.send(bench.robot.lie_pose)
    bench.turn()
    assert bench.damped
    bench.awake()
    assert bench.send(bench.robot.lie_pose) is None
    assert bench.run(0.02).stiffness.all()
    bench.driver.deactivate()
    bench.turn()
    assert bench.damped


def test_targets_that_never_paused_are_not_followed_after_activation(bench):
    bench.run(0.2, bench.robot.lie_pose)
    bench.driver.activate()
    bench.run(1.0, bench.robot.lie_pose)
    assert bench.damped
    assert any("must come first" in warning for warning in bench.driver.warnings)
    bench.driver.damp()
    bench.run(0.02, bench.robot.lie_pose)
    assert not bench.damped


def test_stiffness_comes_gently(bench):
    bench.awake()
    bench.send(bench.position)
    start = len(bench.sent)
    bench.run(1.0, bench.position)
    stiffness = np.array([command.stiffness[0] for command in bench.sent[start:]])
    damping = np.array([command.damping[0] for command in bench.sent[start:]])
    gains, duration = bench.robot.gains, bench.robot.safety.soft_start
    assert stiffness[0] < 0.02 * gains.kp
    assert damping[0] == pytest.approx(gains.damping, rel=0.02)
    assert np.diff(stiffness).max() < 1.1 * gains.kp * 0.002 / duration
    assert stiffness[-1] == gains.kp
    assert damping[-1] == gains.kd


def test_targets_at_50_hz_become_ramps(bench):
    bench.following()
    bench.send(bench.position + 0.1)
    steps = np.array([bench.turn().position[2] for _ in range(8)]) - bench.robot.lie_pose[2]
    np.testing.assert_allclose(steps, [0.02, 0.04, 0.06, 0.08, 0.1, 0.1, 0.1, 0.1], atol=1e-9)


def test_targets_at_200_hz_are_reached_before_the_next(bench):
    bench.following().run(0.1, bench.position, rate=200.0)
    bench.send(bench.position + 0.01)
    bench.now += 0.003
    assert bench.turn().position[1] == pytest.approx(bench.robot.lie_pose[1] + 0.01)


def test_positions_stay_inside_each_sides_limits(bench):
    robot = bench.robot
    goals = {"upper": robot.upper + 5.0, "lower": robot.lower - 5.0}
    bench.following()
    for name, goal in goals.items():
        while np.abs(bench.position - getattr(robot, name)).max() > 1e-9:
            bench.run(0.02, bench.position + np.clip(goal - bench.position, -0.3, 0.3))
            assert bench.driver.phase is Phase.FOLLOWING
    stiff = np.array([command.position for command in bench.sent if command.stiffness.any()])
    assert ((robot.lower <= stiff) & (stiff <= robot.upper)).all()
    np.testing.assert_allclose(stiff.max(axis=0), robot.upper)
    np.testing.assert_allclose(stiff.min(axis=0), robot.lower)


def test_the_first_target_must_be_where_the_joints_are(bench):
    bench.awake()
    assert "begin where the joints are" in bench.send(bench.robot.stand_pose)
    bench.run(0.5, bench.robot.lie_pose)  # who has been refused must pause, before anything may move
    assert bench.damped
    bench.run(0.1)
    bench.run(0.5, bench.robot.lie_pose)
    assert not bench.damped


def test_silence_of_targets_damps_within_a_tenth_of_a_second_and_is_no_trip(bench):
    bench.following()
    bench.driver.take_announcements()
    last = bench.now
    while not bench.damped:
        bench.turn()
        assert bench.now - last < 0.1
    assert bench.driver.trip is None
    assert re.search("no targets for 0.0. s", bench.driver.take_announcements()[0])
    bench.run(0.02, bench.position)
    assert not bench.damped


def test_damp_lets_go_at_once(bench):
    bench.following().driver.damp()
    bench.turn()
    assert bench.damped
    assert bench.driver.phase is Phase.DAMPING


@pytest.mark.parametrize(
    ("name", "seconds", "fault"),
    [
        ("tilt", 0.002, {"orientation": ON_ITS_SIDE}),
        ("temperature", 0.002, {"temperature": np.full(12, 95.0)}),
        ("identity", 0.002, {"identity": (4, 2)}),
        ("remote_stop", 0.002, {"remote": encode_remote(STOP)}),
        ("joint_position", 0.002, {"position": np.zeros(12)}),
        ("invalid_state", 0.002, {"velocity": np.full(12, np.nan)}),
        ("invalid_state", 0.002, {"orientation": np.zeros(4)}),
        ("joint_velocity", 0.12, {"velocity": np.full(12, 26.0)}),
        ("motor_power", 0.12, {"velocity": np.full(12, 15.0), "torque": np.full(12, 30.0)}),
        ("joint_torque", 0.6, {"torque": np.full(12, -60.0)}),
    ],
)
def test_what_is_wrong_with_a_state_trips(bench, name, seconds, fault):
    bench.following()
    bench.driver.take_announcements()
    bench.state = fault
    bench.run(seconds, bench.position)
    assert bench.driver.phase is Phase.TRIPPED
    assert bench.driver.trip.name == name
    assert bench.damped
    told = bench.driver.take_announcements()
    assert len(told) == 1, told
    assert told[0].startswith(f"tripped: {name}: ")


def test_a_blocked_joint_trips(bench):
    bench.following()
    bench.state = {"position": bench.position.copy()}
    way = np.linspace(0.0, 1.0, 30)
    for share in way[:20]:
        bench.run(0.02, bench.robot.lie_pose + share * (bench.robot.stand_pose - bench.robot.lie_pose))
    assert bench.driver.phase is Phase.FOLLOWING
    for share in way[20:]:
        bench.run(0.02, bench.robot.lie_pose + share * (bench.robot.stand_pose - bench.robot.lie_pose))
    bench.run(0.3, bench.robot.stand_pose)
    assert bench.driver.trip.name == "joint_error"
    assert "blocked leg" in bench.driver.trip.reason


@pytest.mark.parametrize(
    ("name", "problem"), [("stale_state", "silent"), ("frozen_state", "frozen"), ("frozen_state", "still")]
)
def test_old_states_trip(bench, name, problem):
    bench.following()
    setattr(bench, problem, True)
    began = bench.now
    while bench.driver.trip is None:
        bench.run(0.02, bench.position)
        assert bench.now - began < 0.25
    assert bench.driver.trip.name == name
    assert bench.damped


def test_nan_that_the_codec_has_refused_trips(bench):
    bench.following().counters.reject("not_finite", "a state holds NaN")
    bench.turn()
    assert bench.driver.trip.name == "not_finite"


def test_a_target_that_jumps_trips_and_is_not_followed(bench):
    bench.following()
    assert "the target of FR_thigh_joint jumped by" in bench.send(bench.position + np.eye(12)[1] * -2.0)
    bench.turn()
    assert bench.damped
    assert bench.driver.trip.name == "target_jump"


def test_targets_that_are_no_numbers_are_refused_and_end_as_silence(bench):
    bench.following()
    bad = bench.position.copy()
    bad[3] = np.nan
    assert "finite" in bench.send(bad)
    assert "finite" in bench.send(bench.position[:5])
    assert bench.turn().stiffness.all()
    bench.run(0.1, bad)
    assert bench.damped
    assert bench.driver.trip is None


def test_short_peaks_do_not_trip(bench):
    bench.following()
    for _ in range(20):
        bench.state = {"velocity": np.full(12, 26.0), "torque": np.full(12, 60.0)}
        bench.run(0.04, bench.position)
        bench.state = {}
        bench.run(0.06, bench.position)
    assert bench.driver.trip is None


def test_shaking_trips_although_no_peak_lasts(bench):
    bench.following()
    for _ in range(100):
        bench.state = {"velocity": np.full(12, 30.0)}
        bench.run(0.006, bench.position)
        bench.state = {}
        bench.run(0.002, bench.position)
    assert bench.driver.trip.name == "joint_velocity"


def test_the_first_reason_stays_and_later_ones_are_warnings(bench):
    bench.following()
    bench.state = {"orientation": ON_ITS_SIDE}
    bench.run(0.02, bench.position)
    bench.state |= {"temperature": np.full(12, 95.0)}
    bench.run(0.02, bench.position)
    assert bench.driver.trip.name == "tilt"
    assert any(warning.startswith("temperature: ") for warning in bench.driver.warnings)


def test_a_damped_robot_may_be_carried_but_not_begin(bench):
    bench.awake()
    bench.state = {"orientation": ON_ITS_SIDE, "velocity": np.full(12, 30.0), "torque": np.full(12, 60.0)}
    bench.run(1.0)
    assert bench.driver.phase is Phase.DAMPING
    assert bench.driver.warnings[0].startswith("tilt: ")
    assert "is tilted" in bench.send(bench.position)
    bench.state = {}
    bench.run(0.5, bench.position)  # who has been refused must pause: setting it upright starts nothing
    assert bench.damped


def test_a_pose_that_is_not_this_robots_keeps_it_damped(bench):
    bench.state = {"position": bench.robot.lie_pose + np.tile([0.0, 0.0, -0.3], 4)}
    bench.awake()
    assert bench.driver.phase is Phase.DAMPING
    assert "is this another robot?" in bench.send(bench.robot.lie_pose)


def test_heat_is_warned_of_before_it_trips(bench):
    bench.following()
    bench.state = {"temperature": np.full(12, 70.0)}
    bench.run(1.0, bench.position)
    assert bench.driver.phase is Phase.FOLLOWING
    assert "rest soon" in bench.driver.warnings[0]
    assert sum("rest soon" in told for told in bench.driver.take_announcements()) == 1


@pytest.mark.parametrize("fault", [{"temperature": np.full(12, 95.0)}, {"remote": encode_remote(STOP)}])
def test_heat_and_the_remotes_stop_latch_a_damped_robot_too(bench, fault):
    bench.awake()
    bench.state = fault
    bench.turn()
    assert bench.driver.phase is Phase.TRIPPED


def test_a_trip_is_left_only_through_reset_once_the_cause_has_gone(bench):
    bench.following()
    bench.state = {"orientation": ON_ITS_SIDE}
    bench.run(0.1, bench.position)
    answer = bench.driver.reset(bench.now)
    assert not answer.accepted
    assert "tilted" in answer.sentence
    bench.state = {}
    bench.run(1.0, bench.position)
    bench.driver.damp()
    bench.driver.deactivate()
    bench.driver.activate()
    bench.run(0.2)
    assert bench.driver.phase is Phase.TRIPPED
    assert bench.driver.reset(bench.now).accepted
    bench.turn()
    assert bench.driver.phase is Phase.DAMPING


def test_after_a_reset_targets_are_followed_only_after_a_pause(bench):
    bench.following().driver.emergency_stop("somebody pressed the button")
    bench.run(0.2, bench.position)
    assert bench.damped
    assert bench.driver.reset(bench.now).accepted
    bench.run(1.0, bench.position)
    assert bench.damped
    bench.run(0.1)
    bench.run(0.5, bench.position)
    assert bench.driver.phase is Phase.FOLLOWING


def test_the_remotes_stop_must_be_released_before_a_reset(bench):
    bench.following()
    bench.state = {"remote": encode_remote(STOP)}
    bench.turn()
    assert "is pressed" in bench.driver.reset(bench.now).sentence
    bench.state = {"remote": encode_remote(RemoteState(frozenset({"L2"})))}
    bench.turn()
    assert bench.driver.remote.buttons == {"L2"}
    assert bench.driver.reset(bench.now).accepted


def test_another_robot_is_accepted_by_a_reset(bench):
    bench.awake()
    bench.state = {"identity": (7, 7)}
    bench.turn()
    assert bench.driver.trip.name == "identity"
    assert bench.driver.reset(bench.now).accepted
    bench.run(0.1)
    assert bench.driver.phase is Phase.DAMPING


def test_without_a_trip_there_is_nothing_to_reset(bench):
    assert "nothing to reset" in bench.driver.reset(bench.now).sentence


def test_a_robot_that_restarts_while_damped_is_welcome_again(bench):
    bench.awake()
    bench.silent = True
    bench.run(3.0)
    bench.silent, bench._tick = False, 0
    bench.run(0.2)
    assert bench.driver.phase is Phase.DAMPING
    assert bench.send(bench.position) is None


def test_gains_come_from_the_policy_within_the_robots_bounds(bench):
    bench.awake()
    assert bench.driver.set_gains(30.0, np.full(12, 1.0)) is None
    bench.run(1.0, bench.position)
    assert (bench.sent[-1].stiffness == 30.0).all()
    assert (bench.sent[-1].damping == 1.0).all()


@pytest.mark.parametrize(
    ("kp", "kd"), [(500.0, 1.0), (30.0, 50.0), (np.nan, 1.0), (30.0, -1.0), (np.full(3, 30.0), 1.0)]
)
def test_gains_beyond_the_bounds_are_refused_and_then_nothing_is_followed(bench, kp, kd):
    bench.awake()
    told = bench.driver.set_gains(kp, kd)
    assert told.startswith(("kp must be", "kd must be"))
    assert told in bench.send(bench.position)
    assert bench.driver.set_gains(30.0, 1.0) is None
    bench.run(0.1)
    assert bench.send(bench.position) is None


def test_gains_do_not_change_under_a_standing_robot(bench):
    bench.following()
    assert "while the joints are damped" in bench.driver.set_gains(20.0, 1.0)
    bench.run(0.1, bench.position)
    assert (bench.sent[-1].stiffness == bench.robot.gains.kp).all()
    assert bench.driver.set_gains(bench.robot.gains.kp, bench.robot.gains.kd) is None


def test_a_joint_far_from_its_position_is_not_asked_for_more_than_its_torque(bench):
    bench.following()
    bench.state = {"position": bench.position.copy()}
    goal = np.clip(bench.position + 0.95, bench.robot.lower, bench.robot.upper)
    for share in np.linspace(0.0, 1.0, 10):
        bench.run(0.02, bench.robot.lie_pose + share * (goal - bench.robot.lie_pose))
    last = bench.sent[-1]
    asked = last.stiffness * np.abs(last.position - bench.state["position"])
    assert (asked <= bench.robot.torque_limit * (1 + 1e-9)).all()
    assert asked.max() == pytest.approx(bench.robot.torque_limit.max(), rel=0.3)


def test_what_stands_in_the_way_of_following_is_told_before_anybody_tries(bench):
    bench.run(0.01)
    assert "not active" in bench.driver.obstacle
    bench.awake()
    assert bench.driver.obstacle == ""
    bench.silent = True
    bench.run(0.2)
    assert bench.driver.obstacle
    bench.silent = False
    bench.run(0.2)
    assert bench.driver.obstacle == ""
