"""What makes the driver let go of the motors, what only warns, and what passes."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from fcnet_core.errors import WireError
from unitree_lowlevel.codec import OFF, SERVO, RemoteState, encode_remote
from unitree_lowlevel.driver import DriverMode

STOP = RemoteState(frozenset({"L2", "B"}))
ON_ITS_SIDE = np.array([np.sin(0.7), 0.0, 0.0, np.cos(0.7)])


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
        ("servo_lost", 0.06, {"mode": np.where(np.arange(12) == 5, OFF, SERVO)}),
    ],
)
def test_what_is_wrong_with_a_state_trips(bench, name, seconds, fault):
    bench.following()
    bench.driver.take_events()
    bench.state = fault
    bench.run(seconds, bench.position)
    assert bench.driver.mode is DriverMode.TRIPPED
    assert bench.driver.trip.name == name
    assert bench.damped
    events = bench.driver.take_events()
    assert len(events) == 1, events
    assert events[0][0] == logging.ERROR
    assert f"{name}: " in events[0][1]


def test_a_blocked_joint_trips(bench):
    bench.following()
    bench.state = {"position": bench.position.copy()}
    way = np.linspace(0.0, 1.0, 30)
    for share in way[:20]:
        bench.run(0.02, bench.robot.lie_pose + share * (bench.robot.stand_pose - bench.robot.lie_pose))
    assert bench.driver.mode is DriverMode.FOLLOWING
    for share in way[20:]:
        bench.run(0.02, bench.robot.lie_pose + share * (bench.robot.stand_pose - bench.robot.lie_pose))
    bench.run(0.3, bench.robot.stand_pose)
    assert bench.driver.trip.name == "joint_error"


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
    bench.following().counters.reject(WireError("not_finite", "a state holds NaN"))
    bench.cycle()
    assert bench.driver.trip.name == "not_finite"


def test_a_target_that_jumps_trips_and_is_not_followed(bench):
    bench.following()
    assert "FR_thigh_joint" in bench.send(bench.position + np.eye(12)[1] * -2.0)
    bench.cycle()
    assert bench.damped
    assert bench.driver.trip.name == "target_jump"


def test_short_peaks_do_not_trip(bench):
    bench.following()
    for _ in range(20):
        for direction in (1.0, -1.0):
            bench.state = {"velocity": np.full(12, 26.0 * direction), "torque": np.full(12, 60.0)}
            bench.run(0.02, bench.position)
        bench.state = {}
        bench.run(0.06, bench.position)
    assert bench.driver.trip is None


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
    assert bench.driver.mode is DriverMode.DAMPING
    assert bench.driver.warnings[0].startswith("tilt: ")
    assert bench.send(bench.position) is not None
    bench.state = {}
    bench.run(0.5, bench.position)  # who has been refused must damp: setting it upright starts nothing
    assert bench.damped


def test_heat_is_warned_of_before_it_trips(bench):
    bench.following()
    bench.state = {"temperature": np.full(12, 70.0)}
    bench.run(1.0, bench.position)
    assert bench.driver.mode is DriverMode.FOLLOWING
    assert bench.driver.warnings[0].startswith("temperature: ")
    assert [level for level, _ in bench.driver.take_events()].count(logging.WARNING) == 1


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        (None, {"remote": encode_remote(RemoteState())}),
        (None, {"remote": encode_remote(RemoteState(frozenset({"L2"})))}),
        ("remote_stop", {"remote": encode_remote(STOP)}),
        ("remote_stop", {"remote": encode_remote(RemoteState(frozenset({"A", "B", "L2"})))}),
        ("temperature", {"temperature": np.full(12, 95.0)}),
    ],
)
def test_heat_and_the_chord_of_the_remotes_stop_latch_a_damped_robot_too(bench, name, fault):
    bench.awake()
    bench.state = fault
    bench.cycle()
    assert (bench.driver.trip and bench.driver.trip.name) == name


def test_a_motor_that_leaves_its_servo_mode_for_a_moment_trips_nothing(bench):
    bench.following()
    for _ in range(10):
        bench.state = {"mode": np.full(12, OFF)}
        bench.run(0.01, bench.position)
        bench.state = {}
        bench.run(0.02, bench.position)
    assert bench.driver.trip is None


def test_a_board_that_never_reports_servo_mode_is_not_checked_for_it(bench):
    bench.state = {"mode": np.full(12, OFF)}
    bench.following().run(1.0, bench.position)
    assert bench.driver.trip is None


def test_damped_motors_may_report_any_mode(bench):
    bench.following().driver.damp()
    bench.state = {"mode": np.full(12, OFF)}
    bench.run(1.0)
    assert bench.driver.trip is None
    assert bench.driver.warnings == ()


def test_a_motor_that_has_cut_itself_out_trips_again_after_a_reset(bench):
    bench.following()
    bench.state = {"mode": np.where(np.arange(12) == 5, OFF, SERVO)}
    bench.run(0.1, bench.position)
    bench.driver.reset(bench.now)
    bench.driver.damp()
    bench.run(0.1, bench.position)
    assert bench.driver.trip.name == "servo_lost"
    assert "FL_calf_joint" in bench.driver.trip.reason


def test_targets_that_swing_far_and_often_trip_before_the_motors_do_much(bench):
    bench.following()
    near, far = bench.position.copy(), bench.position - 1.8 * np.eye(12)[1]
    for _ in range(4):
        bench.run(0.055)
        bench.send(far)
        near, far = far, near
    assert bench.driver.trip.name == "target_rate"


def test_a_velocity_that_contradicts_the_positions_trips(bench):
    bench.following()
    bench.state = {"velocity": 8.0 * np.eye(12)[4]}
    bench.run(0.7, bench.position)
    assert bench.driver.trip.name == "velocity_mismatch"
    assert "FL_thigh_joint" in bench.driver.trip.reason


def test_a_trunk_that_turns_over_trips_while_following_only(bench):
    bench.awake()
    bench.state = {"angular_velocity": np.array([0.0, 5.0, 0.0])}
    bench.run(0.5)
    assert bench.driver.trip is None
    bench.state = {}
    bench.following()
    bench.state = {"angular_velocity": np.array([0.0, 5.0, 0.0])}
    bench.run(0.25, bench.position)
    assert bench.driver.trip.name == "fall_rate"


def test_a_loop_that_is_late_for_long_trips(bench):
    bench.following()
    for _ in range(100):
        bench.now += 0.02
        bench.send(bench.position)
        bench.cycle()
    assert bench.driver.trip.name == "loop_late"


@pytest.mark.parametrize("remote_lost", ["hold", "stop"])
@pytest.mark.parametrize("ending", [bytes(40), None], ids=["vanished", "frozen"])
def test_a_remote_lost_while_it_drives_is_a_warning_or_a_trip(robot, make_bench, remote_lost, ending):
    bench = make_bench(robot, remote_lost=remote_lost).following()
    for number in range(50):
        bench.state = {"remote": encode_remote(RemoteState(ly=0.5 + 0.001 * number))}
        bench.run(0.02, bench.position)
    assert bench.driver.warnings == ()
    if ending is not None:
        bench.state = {"remote": ending}
        bench.run(0.02, bench.position)
    else:
        bench.run(1.1, bench.position)
    if remote_lost == "stop":
        assert bench.driver.trip.name == "remote_lost"
    else:
        assert bench.driver.mode is DriverMode.FOLLOWING
        assert any(warning.startswith("remote_lost: ") for warning in bench.driver.warnings)
