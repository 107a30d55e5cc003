"""A robot that has fallen turns over where that is allowed and requested, for a bounded time."""

import numpy as np
import pytest
from low_level_samples import ON_ITS_BACK, STOP_PRESSED

from fcnet_core.errors import FcnetError
from unitree_lowlevel.codec import encode_remote
from unitree_lowlevel.driver import DriverMode
from unitree_lowlevel.safety.monitor import BEGIN_TIME, UPRIGHT_TIME


@pytest.fixture
def fallen(robot, make_bench):
    """A robot on its back, damped, behind a bridge that allows a recovery."""
    bench = make_bench(robot, allow_recovery=True)
    bench.state = {"orientation": ON_ITS_BACK}
    return bench.awake()


@pytest.fixture
def recovering(fallen):
    fallen.driver.recover(fallen.now)
    fallen.cycle()
    fallen.run(1.0, fallen.position)
    assert (fallen.driver.mode, fallen.driver.trip) == (DriverMode.FOLLOWING, None)
    assert fallen.driver.warnings[0].startswith("tilt: ")
    return fallen


def test_nothing_is_followed_without_a_request_and_after_it_has_expired(fallen):
    for request in (False, True):
        fallen.driver.damp()
        if request:
            fallen.driver.recover(fallen.now)
            fallen.cycle()
            assert fallen.driver.target_refusal == ""
            fallen.run(BEGIN_TIME + 0.1)
        assert fallen.driver.target_refusal
        fallen.run(0.5, fallen.position)
        assert fallen.damped


def test_a_robot_that_is_still_tilted_when_the_time_is_over_trips(recovering, robot):
    recovering.run(robot.recovery.max_time, recovering.position)
    assert recovering.driver.trip.name == "tilt"
    assert recovering.damped


def test_once_upright_the_tilt_counts_again(recovering):
    recovering.state = {}
    recovering.run(UPRIGHT_TIME + 0.1, recovering.position)
    assert recovering.driver.mode is DriverMode.FOLLOWING
    recovering.state = {"orientation": ON_ITS_BACK}
    recovering.run(0.01, recovering.position)
    assert recovering.driver.trip.name == "tilt"


def test_a_permission_is_not_renewed_while_the_robot_is_followed_and_serves_once(recovering):
    with pytest.raises(FcnetError):
        recovering.driver.recover(recovering.now)
    recovering.driver.damp()
    recovering.run(0.1)
    recovering.run(0.5, recovering.position)
    assert recovering.damped
    assert recovering.driver.target_refusal


def turn(bench, rate):
    """Turn the trunk for a second; the values change as those of sensors do."""
    for number in range(50):
        bench.state |= {"angular_velocity": np.array([rate + 1e-3 * number, 0.0, 0.0])}
        bench.run(0.02, bench.position)


def test_the_trunk_may_turn_faster_but_not_at_any_rate(recovering, robot):
    turn(recovering, 1.5 * robot.safety.max_fall_rate)
    assert recovering.driver.mode is DriverMode.FOLLOWING
    turn(recovering, 1.5 * robot.recovery.max_rate)
    assert recovering.driver.trip.name == "fall_rate"


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("temperature", {"temperature": np.full(12, 95.0)}),
        ("remote_stop", {"remote": encode_remote(STOP_PRESSED)}),
        ("joint_position", {"position": np.zeros(12)}),
        ("joint_velocity", {"velocity": np.full(12, 26.0)}),
        ("joint_torque", {"torque": np.full(12, -60.0)}),
    ],
)
def test_everything_else_still_trips(recovering, name, fault):
    recovering.state |= fault
    recovering.run(0.6, recovering.position)
    assert recovering.driver.trip.name == name


def test_motors_give_a_share_of_their_torque_only(recovering, robot):
    recovering.state |= {"position": recovering.position.copy()}
    start, way = recovering.position, -np.tile([0.0, 0.9, 0.0], 4)
    for share in np.linspace(0.0, 1.0, 10):
        command = recovering.run(0.02, start + share * way)
    asked = command.stiffness * np.abs(command.position - start)
    assert (asked <= robot.recovery.torque * robot.torque_limit + 1e-6).all()
    assert asked.max() > 0.9 * robot.recovery.torque * robot.torque_limit.min()


@pytest.mark.parametrize(
    ("is_allowed", "fault"),
    [(False, {}), (True, {"position": np.zeros(12)}), (True, {"temperature": np.full(12, 95.0)})],
)
def test_it_is_refused_unless_a_parameter_allows_it_or_where_more_is_wrong_than_the_tilt(
    robot, make_bench, is_allowed, fault
):
    bench = make_bench(robot, allow_recovery=is_allowed)
    bench.state = {"orientation": ON_ITS_BACK, **fault}
    bench.awake()
    with pytest.raises(FcnetError):
        bench.driver.recover(bench.now)
    bench.run(0.5, bench.position)
    assert bench.damped


def test_after_a_trip_a_reset_comes_first(robot, make_bench):
    bench = make_bench(robot, allow_recovery=True).following()
    bench.state = {"orientation": ON_ITS_BACK}
    bench.run(0.1, bench.position)
    assert bench.driver.trip.name == "tilt"
    with pytest.raises(FcnetError):
        bench.driver.recover(bench.now)
    bench.driver.reset(bench.now)
    bench.driver.damp()
    bench.run(0.5, bench.position)
    assert bench.damped
    bench.driver.recover(bench.now)
    bench.driver.damp()
    bench.cycle()
    bench.run(0.5, bench.position)
    assert bench.driver.mode is DriverMode.FOLLOWING
