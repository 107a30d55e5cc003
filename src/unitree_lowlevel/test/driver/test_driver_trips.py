"""What makes the driver let go of the motors, what only warns, and what passes; and how a reset ends a trip."""

import logging

import numpy as np
import pytest
from low_level_samples import ON_ITS_SIDE, STOP_PRESSED

from fcnet_core.errors import FcnetError, WireError
from unitree_lowlevel.codec import OFF, SERVO, RemoteState, encode_remote
from unitree_lowlevel.driver import DriverMode

IMU = ("orientation", "angular_velocity", "linear_acceleration")
MOTOR_TURN = 0.69  # [rad] of a joint per turn of its motor, which has the encoder
ALL_OFF, ONE_OFF = np.full(12, OFF), np.where(np.arange(12) == 5, OFF, SERVO)
TURNING = np.array([0.0, 5.0, 0.0])


def begin(bench, fault):
    """Begin a fault: wrong values of the state, the name of a switch of the bench, or a function."""
    if isinstance(fault, dict):
        bench.state = fault
    elif isinstance(fault, str):
        setattr(bench, fault, True)
    else:
        fault(bench)


@pytest.mark.parametrize(
    ("name", "seconds", "fault"),
    [
        ("tilt", 0.002, {"orientation": ON_ITS_SIDE}),
        ("identity", 0.002, {"identity": (4, 2)}),
        ("remote_stop", 0.002, {"remote": encode_remote(STOP_PRESSED)}),
        ("joint_position", 0.002, {"position": np.zeros(12)}),
        ("invalid_state", 0.002, {"velocity": np.full(12, np.nan)}),
        ("invalid_state", 0.002, {"orientation": np.zeros(4)}),
        ("joint_velocity", 0.12, {"velocity": np.full(12, 26.0)}),
        ("motor_power", 0.12, {"velocity": np.full(12, 15.0), "torque": np.full(12, 30.0)}),
        ("joint_torque", 0.6, {"torque": np.full(12, -60.0)}),
        ("servo_lost", 0.06, {"mode": ONE_OFF}),
        ("velocity_mismatch", 0.7, {"velocity": 8.0 * np.eye(12)[4]}),
        ("fall_rate", 0.25, {"angular_velocity": TURNING}),
        ("stale_state", 0.25, "silent"),
        ("frozen_state", 0.25, "frozen"),
        *(("frozen_state", 0.25, lambda bench, name=name: bench.constant.add(name)) for name in IMU),
        ("servo_lost", 0.06, {"level": 0xEE}),
        ("velocity_mismatch", 0.12, lambda bench: bench.slip(4, MOTOR_TURN)),
        ("velocity_mismatch", 0.25, {"angular_velocity": np.array([0.0, 0.0, 30.0])}),
        ("not_finite", 0.002, lambda bench: bench.counters.reject(WireError("not_finite", "a state holds NaN"))),
        ("target_jump", 0.002, lambda bench: bench.send(bench.position - 2.0 * np.eye(12)[1])),
    ],
)
def test_what_is_wrong_with_a_state_or_a_target_trips(bench, name, seconds, fault):
    bench.following()
    bench.driver.take_events()
    begin(bench, fault)
    bench.run(seconds, bench.position)
    assert bench.driver.mode is DriverMode.TRIPPED
    assert bench.driver.trip.name == name
    assert bench.damped
    events = bench.driver.take_events()
    assert len(events) == 1, events
    assert events[0][0] == logging.ERROR
    assert f"{name}: " in events[0][1]


@pytest.mark.parametrize("is_blocked", [False, True])
def test_a_position_that_stays_while_its_target_moves_trips_unless_the_torque_shows_that_it_is_blocked(
    bench, is_blocked
):
    bench.following()
    bench.constant.add("position")
    bench.state = {"position": bench.position.copy(), "velocity": np.zeros(12)}
    bench.run(1.0, bench.position)
    assert bench.driver.mode is DriverMode.FOLLOWING
    for step in range(20):
        bench.state |= {"torque": np.full(12, 0.1 * step * is_blocked)}
        bench.run(0.02, bench.state["position"] + 0.01 * step * np.eye(12)[3])
    assert (bench.driver.mode is DriverMode.FOLLOWING) == is_blocked
    if not is_blocked:
        assert bench.driver.trip.name == "frozen_state"
        assert "FL_hip_joint" in bench.driver.trip.reason


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("temperature", {"temperature": np.where(np.arange(12) == 5, -126.0, 40.0)}),
        ("board_restarted", lambda bench: setattr(bench.counters, "restarts", 1)),
        ("tick_jump", lambda bench: setattr(bench, "tick", bench.tick + 3000)),
        ("tick_jump", lambda bench: setattr(bench, "tick", bench.tick + 3_600_000)),
    ],
)
def test_what_is_odd_about_a_board_is_a_warning_and_the_robot_is_still_followed(bench, name, fault):
    bench.following()
    begin(bench, fault)
    bench.run(0.3, bench.position)
    assert [warning for warning in bench.driver.warnings if warning.startswith(name)], bench.driver.warnings
    assert bench.driver.mode is DriverMode.FOLLOWING


def test_a_single_wrong_position_trips_nothing(bench):
    bench.following()
    bench.slip(4, MOTOR_TURN)
    bench.cycle()
    bench.slip(4, -MOTOR_TURN)
    bench.run(0.4, bench.position)
    assert bench.driver.mode is DriverMode.FOLLOWING


def test_a_blocked_joint_trips(bench):
    bench.following()
    bench.state = {"position": bench.position.copy()}
    way = np.linspace(bench.robot.lie_pose, bench.robot.stand_pose, 30)
    for target in way[:20]:
        bench.run(0.02, target)
    assert bench.driver.mode is DriverMode.FOLLOWING
    for target in way[20:]:
        bench.run(0.02, target)
    bench.run(0.3, way[-1])
    assert bench.driver.trip.name == "joint_error"


def test_a_loop_that_is_late_for_long_trips(bench):
    bench.following()
    for _ in range(100):
        bench.now += 0.02
        bench.send(bench.position)
        bench.cycle()
    assert bench.driver.trip.name == "loop_late"


@pytest.mark.parametrize(
    "peaks",
    [[{"velocity": np.full(12, sign * 26.0), "torque": np.full(12, 60.0)} for sign in (1, -1)], [{"mode": ALL_OFF}]],
    ids=["velocity and torque", "servo mode"],
)
def test_short_peaks_do_not_trip(bench, peaks):
    bench.following()
    for _ in range(20):
        for bench.state in peaks:
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


@pytest.mark.parametrize(
    ("name", "fault"), [("tilt", {"orientation": ON_ITS_SIDE}), ("joint_position", {"position": np.zeros(12)})]
)
def test_a_damped_robot_may_be_carried_but_not_begin(bench, name, fault):
    bench.awake()
    bench.state = {"angular_velocity": TURNING}
    bench.run(0.5)
    bench.state = {"velocity": np.full(12, 30.0), "torque": np.full(12, 60.0), **fault}
    bench.run(1.0)
    assert bench.driver.mode is DriverMode.DAMPING
    assert bench.driver.warnings[0].startswith(f"{name}: ")
    assert bench.send(bench.position) is not None
    bench.state = {}
    bench.run(0.5, bench.position)  # who has been refused must damp: setting it upright starts nothing
    assert bench.damped


def test_heat_is_warned_of_before_it_trips(bench):
    safety, one = bench.robot.safety, np.eye(12)[7]
    bench.following()
    for temperature, warned in ((safety.temperature_warning - 1.0, 0), (safety.temperature_warning, 1)):
        bench.state = {"temperature": temperature * one}
        bench.run(1.0, bench.position)
        assert bench.driver.mode is DriverMode.FOLLOWING
        assert [level for level, _ in bench.driver.take_events()].count(logging.WARNING) == warned
    assert "RR_thigh" in bench.driver.warnings[0]
    bench.state = {"temperature": safety.max_temperature * one}
    bench.cycle()
    assert bench.driver.trip.name == "temperature"


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        (None, {"remote": encode_remote(RemoteState(frozenset({"L2"})))}),
        ("remote_stop", {"remote": encode_remote(RemoteState(frozenset({"A", "B", "L2"})))}),
        ("temperature", {"temperature": np.full(12, 95.0)}),
        ("identity", {"identity": (7, 7)}),
    ],
)
def test_heat_another_robot_and_the_chord_of_the_remotes_stop_latch_a_damped_robot_too(bench, name, fault):
    bench.awake()
    bench.state = fault
    bench.cycle()
    assert (bench.driver.trip and bench.driver.trip.name) == name
    if name == "identity":  # it is accepted by a reset
        bench.driver.reset(bench.now)
        bench.run(0.1)
        assert bench.driver.mode is DriverMode.DAMPING


def test_motors_that_never_report_servo_mode_or_are_damped_are_not_checked_for_it(bench):
    bench.state = {"mode": ALL_OFF}
    bench.following().run(1.0, bench.position)
    assert bench.driver.trip is None
    bench.state = {}
    bench.run(0.1, bench.position)
    bench.driver.damp()
    bench.state = {"mode": ALL_OFF}
    bench.run(1.0)
    assert bench.driver.trip is None
    assert bench.driver.warnings == ()


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
    bench.run(1.1 if ending is None else 0.02, bench.position)
    if remote_lost == "stop":
        assert bench.driver.trip.name == "remote_lost"
    else:
        assert bench.driver.mode is DriverMode.FOLLOWING
        assert any(warning.startswith("remote_lost: ") for warning in bench.driver.warnings)


@pytest.mark.parametrize(
    "fault", [{"orientation": ON_ITS_SIDE}, {"remote": encode_remote(STOP_PRESSED)}], ids=["tilt", "remote_stop"]
)
def test_a_trip_is_left_only_through_reset_once_the_cause_has_gone(bench, fault):
    bench.following()
    bench.driver.reset(bench.now)  # there is nothing to reset
    assert bench.driver.mode is DriverMode.FOLLOWING
    bench.state = fault
    bench.run(0.1, bench.position)
    with pytest.raises(FcnetError):
        bench.driver.reset(bench.now)
    bench.state = {}
    bench.run(1.0, bench.position)
    bench.driver.damp()
    bench.driver.deactivate()
    bench.driver.activate()
    bench.run(0.2)
    assert bench.driver.mode is DriverMode.TRIPPED
    bench.driver.reset(bench.now)
    bench.cycle()
    assert bench.driver.mode is DriverMode.DAMPING


def test_a_motor_that_has_cut_itself_out_trips_again_after_a_reset(bench):
    bench.following()
    bench.state = {"mode": ONE_OFF}
    bench.run(0.1, bench.position)
    bench.driver.reset(bench.now)
    bench.driver.damp()
    bench.run(0.1, bench.position)
    assert bench.driver.trip.name == "servo_lost"
    assert "FL_calf_joint" in bench.driver.trip.reason


def test_a_robot_that_restarts_while_damped_can_be_followed_again(bench):
    bench.awake()
    bench.silent = True
    bench.run(3.0)
    bench.silent, bench.tick = False, 0
    bench.run(0.2)
    assert bench.driver.mode is DriverMode.DAMPING
    assert bench.send(bench.position) is None
