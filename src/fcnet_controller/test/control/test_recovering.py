import numpy as np
import pytest

from fcnet_core.errors import FcnetError
from fcnet_core.names import Mode

UPRIGHT = np.array([0.0, 0.0, 0.0, 1.0])
ON_ITS_BACK = np.array([1.0, 0.0, 0.0, 0.0])


def fallen(bench):
    bench.orientation = ON_ITS_BACK
    bench.run(0.1)
    return bench


def test_a_robot_on_its_back_recovers_then_stands_and_walks(bench):
    fallen(bench).core.recover(bench.now)
    bench.run(1.0)
    assert bench.core.mode is Mode.RECOVERING
    bench.orientation = UPRIGHT
    bench.run(5.0)
    assert bench.core.mode is Mode.STANDING
    bench.core.walk()
    bench.run(1.0, vx=0.5)
    assert bench.core.mode is Mode.WALKING


def test_a_robot_that_stays_on_its_back_ends_in_fault(bench, robot):
    fallen(bench).core.recover(bench.now)
    bench.run(robot.recovery.max_time + 0.1)
    assert bench.core.mode is Mode.FAULT
    assert "belly" in bench.core.fault
    assert bench.sent[-1] is None
    bench.core.reset()
    bench.core.recover(bench.now)
    assert bench.core.mode is Mode.RECOVERING


def put_a_joint_beyond_its_limits(bench):
    bench.position[4] = bench.robot.upper[4] + 2 * bench.robot.safety.position_margin
    fallen(bench)


REFUSED = [
    ("stand_up", "joint_states", lambda bench: bench.fall_silent()),
    ("stand_up", "tilted", lambda bench: bench.tilt()),
    ("stand_up", "a damp must come first", lambda bench: bench.refuse()),
    ("stand_up", "/other", lambda bench: bench.follow_another()),
    ("recover", None, lambda bench: bench.walk()),
    ("recover", None, lambda bench: fallen(bench).core.set_bridge_fault("tilt")),
    ("recover", "FL_thigh_joint", put_a_joint_beyond_its_limits),
    ("recover", "s old", lambda bench: setattr(fallen(bench), "now", bench.now + 1.0)),
    ("recover", "a damp must come first", lambda bench: fallen(bench).refuse()),
]


@pytest.mark.parametrize(("request_name", "words", "situation"), REFUSED)
def test_getting_up_is_refused_where_it_cannot_be(bench, request_name, words, situation):
    situation(bench)
    if request_name == "stand_up":
        bench.run(0.1)
    mode = bench.core.mode
    with pytest.raises(FcnetError, match=words):
        getattr(bench.core, request_name)(bench.now)
    assert bench.core.mode is mode


ENDS = {
    "emergency stop": lambda bench: bench.core.emergency_stop(),
    "old state": lambda bench: bench.fall_silent(),
    "stalled loop": lambda bench: bench.core.stop_after_stall(1.0),
    "bridge": lambda bench: bench.core.set_bridge_fault("joint_velocity"),
}


@pytest.mark.parametrize("way", ENDS)
def test_a_recovery_ends_in_fault_for_everything_but_the_tilt(bench, way):
    fallen(bench).core.recover(bench.now)
    bench.run(0.5)
    ENDS[way](bench)
    bench.run(0.5)
    assert bench.core.mode is Mode.FAULT
    assert bench.sent[-1] is None


def test_once_upright_the_tilt_counts_again(bench):
    fallen(bench).core.recover(bench.now)
    bench.orientation = UPRIGHT
    bench.run(0.8)
    assert bench.core.mode is Mode.STANDING_UP
    fallen(bench)
    assert bench.core.mode is Mode.FAULT


@pytest.mark.parametrize("request_name", ["walk", "lie_down"])
def test_a_recovering_robot_does_nothing_else(bench, request_name):
    fallen(bench).core.recover(bench.now)
    with pytest.raises(FcnetError):
        getattr(bench.core, request_name)()
    bench.core.recover(bench.now)
    bench.run(0.1)
    assert bench.core.mode is Mode.RECOVERING
