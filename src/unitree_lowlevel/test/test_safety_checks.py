"""Each check passes a healthy robot and names its finding beyond its threshold."""

import math
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from low_level_samples import healthy_state
from msgspec import structs

from fcnet_core.errors import FcnetError, WireError
from fcnet_core.robot import load_robot
from unitree_lowlevel.codec import RemoteState, encode_remote
from unitree_lowlevel.driver import MotorDriver
from unitree_lowlevel.safety.checks import (
    FallWatch,
    Finding,
    LoopWatch,
    RobotChecks,
    Severity,
    Sustained,
    TargetWatch,
    VelocityWatch,
    require_drivable,
)
from unitree_lowlevel.safety.link import LinkWatch, PacketLoss, RemoteWatch, StateWatch
from unitree_lowlevel.transport import Reception, TransportCounters

ROBOTS = Path(__file__).parents[2] / "fcnet_core/test/shared/robots"


@pytest.fixture
def checks(robot):
    return RobotChecks(robot)


def one(joint: int, value: float) -> np.ndarray:
    return value * np.eye(12)[joint]


def test_a_board_drives_twelve_joints_in_the_order_of_the_wire_with_every_threshold(robot):
    require_drivable(robot)
    with pytest.raises(FcnetError, match="hip_joint"):
        require_drivable(load_robot(ROBOTS / "biped.yaml"))
    with pytest.raises(FcnetError, match="order"):
        require_drivable(structs.replace(robot, joints=dict(sorted(robot.joints.items()))))
    missing = structs.replace(robot.safety, max_power=math.inf, soft_start=0.0)
    with pytest.raises(FcnetError, match=r"safety\.max_power, safety\.soft_start"):
        MotorDriver(structs.replace(robot, safety=missing))


def turned(about: int, angle: float) -> np.ndarray:
    return np.array([*(np.sin(angle / 2) * np.eye(3)[about]), np.cos(angle / 2)])


def position_beyond(checks, robot, joint, share):
    limit = robot.upper if share > 0 else robot.lower
    beyond = limit + share * robot.safety.position_margin
    return checks.position(np.where(np.arange(12) == joint, beyond, robot.stand_pose))


def power(checks, robot, joint, share):
    each = np.full(12, np.sqrt(robot.safety.max_power / 12))
    return checks.power(share * each, np.where(np.arange(12) == joint, -each, each))


AT_A_SHARE = {
    "joint_position": position_beyond,
    "joint_velocity": lambda checks, robot, joint, share: checks.velocity(
        one(joint, share * robot.safety.max_velocity * robot.velocity_limit[joint])
    ),
    "joint_torque": lambda checks, robot, joint, share: checks.torque(
        one(joint, share * robot.safety.max_torque * robot.torque_limit[joint])
    ),
    "joint_error": lambda checks, robot, joint, share: checks.joint_error(
        robot.stand_pose, robot.stand_pose + one(joint, share * robot.safety.max_joint_error)
    ),
    "motor_power": power,
    "tilt": lambda checks, robot, joint, share: checks.tilt(turned(joint % 2, share * robot.safety.max_tilt)),
}


@pytest.mark.parametrize("name", AT_A_SHARE)
def test_each_joint_and_the_trunk_have_their_limit_in_both_directions(checks, robot, name):
    for joint, sign in product(range(12), (-1.0, 1.0)):
        assert AT_A_SHARE[name](checks, robot, joint, 0.99 * sign) is None
        found = AT_A_SHARE[name](checks, robot, joint, 1.01 * sign)
        assert (found.name, found.severity) == (name, Severity.TRIP_IF_FOLLOWING)


def test_a_heading_is_no_tilt_and_upside_down_is(checks):
    assert checks.tilt(turned(2, 2.0)) is None
    assert checks.tilt(turned(0, np.pi)) is not None


@pytest.mark.parametrize(
    ("jump", "elapsed", "name"),
    [(0.0, 0.0, None), (0.5, 0.02, None), (0.1, 0.0, "target_jump"), (0.7, 0.02, "target_jump")],
)
def test_targets_may_move_but_not_jump(robot, jump, elapsed, name):
    target = robot.stand_pose + one(2, robot.safety.max_target_jump + jump)
    found = TargetWatch(robot.safety).check(robot.stand_pose, target, elapsed)
    assert (found and found.name) == name


TOO_FAST = [(1.8, 0.055), (0.8, 0.02), (0.5, 0.01), (1.2, 0.06)]
AS_WALKING_NEEDS = [(0.6, 0.04), (0.29, 0.02), (0.8, 0.06), (0.05, 0.005)]


@pytest.mark.parametrize(("size", "interval"), [*TOO_FAST, *AS_WALKING_NEEDS])
def test_targets_may_go_to_and_fro_as_fast_as_walking_needs_and_no_faster_for_long(robot, size, interval):
    targets = TargetWatch(robot.safety)
    pose, far = robot.stand_pose, robot.stand_pose + one(2, size)
    longest, way = 2000.0 * size if (size, interval) in AS_WALKING_NEEDS else 20.0, 0.0
    while (found := targets.check(pose, far, interval)) is None and way < longest:
        pose, far, way = far, pose, way + size
    assert (found is not None) == ((size, interval) in TOO_FAST)


def test_a_condition_counts_once_its_time_with_exceeds_that_without():
    sustained, bad = Sustained(0.1, 0.002), Finding("bad", "")
    assert [sustained.check(bad) for _ in range(50)] == [None] * 50
    assert [sustained.check(None) for _ in range(10)] == [None] * 10
    assert sustained.check(bad) is None
    assert [sustained.check(bad) for _ in range(12)][-1] is bad
    sustained.reset()
    assert sustained.check(bad) is None


@pytest.fixture
def states():
    return StateWatch(timeout=0.05, frozen_time=0.2)


def test_states_are_fresh_by_new_ticks_alone(states, robot):
    assert states.check(10.0).name == "stale_state"
    assert "because of this" in states.check(10.0, "because of this").reason
    assert states.update(Reception(healthy_state(robot, tick=5), 10.0))
    assert states.check(10.04) is None
    assert not states.update(None)
    assert states.check(10.06).name == "stale_state"
    assert states.is_stale(10.06)
    assert not states.update(Reception(healthy_state(robot, tick=5), 10.06))
    assert states.check(10.07).name == "frozen_state"
    assert states.update(Reception(healthy_state(robot, tick=6), 10.08))
    assert states.check(10.09) is None


@pytest.mark.parametrize("field", ["position", "velocity", "torque", "temperature", "orientation", "angular_velocity"])
def test_a_state_with_nan_is_not_taken(states, robot, field):
    good = healthy_state(robot)
    states.update(Reception(good, 10.0))
    bad = healthy_state(robot, tick=2, **{field: getattr(good, field) * np.nan})
    assert not states.update(Reception(bad, 10.01))
    assert states.state is good
    assert states.check(10.01).name == "invalid_state"
    assert states.check(10.01).severity is Severity.TRIP_IF_FOLLOWING


class Line:
    """Sends states every 2 ms and counts as a transport does; `step` cycles of the board to one of the reader."""

    def __init__(self, ticks=2.0, period=0.002, step=1):
        self.rng = np.random.default_rng(0)
        self.counters = TransportCounters()
        self.loss = PacketLoss(period)
        self.ticks, self.step, self.cycles = ticks, step, 0

    def run(self, seconds, lost=0.0, doubled=0.0):
        for _ in range(round(seconds / 0.002 / self.step)):
            self.cycles += self.step
            for _ in range(self.step):
                if self.rng.random() >= lost:
                    copies = 1 + (self.rng.random() < doubled)
                    self.counters.received += copies
                    self.counters.duplicates += copies - 1
            self.loss.update(20.0 + 0.002 * self.cycles, int(self.cycles * self.ticks) % 2**32, self.counters)
        return self.loss.share


@pytest.mark.parametrize(
    ("lost", "ticks", "step", "period"),
    [
        *((lost, ticks, 1, 0.002) for lost in (0.0, 0.01, 0.1, 0.4) for ticks in (1.0, 2.0, 2000.0)),
        (0.15, 2.0, 2, 0.002),  # a board that sends unasked, and a late reader: half as many cycles as states
        (0.0, 2.0, 2, 0.0012),  # a simulated board on a busy machine: 60 % of the states, on a clock that is as slow
    ],
)
def test_the_loss_is_right_whatever_the_tick_counts(lost, ticks, step, period):
    doubled = 0.05 if step == 1 else 0.0
    share = Line(ticks, period, step).run(3.0, lost, doubled)
    assert share == pytest.approx(lost, abs=0.02 if lost < 0.05 else 0.05)


@pytest.mark.parametrize(("runs_free", "share"), [(False, 0.0), (True, 0.5)])
def test_our_own_lateness_is_no_loss_unless_the_board_is_known_to_send_unasked(runs_free, share):
    """A board that answers commands sends no more states than we sent commands: here every second one."""
    line = Line(ticks=2000.0)
    for _ in range(1000):
        line.cycles += 2
        line.counters.received += 1
        line.loss.update(20.0 + 0.002 * line.cycles, line.cycles * 2000, line.counters)
    line.loss.estimate(runs_free)
    assert line.loss.share == pytest.approx(share, abs=0.01)


def test_loss_is_known_after_a_while_warned_of_and_then_trips(robot):
    line = Line()
    assert line.run(0.3, 0.5) is None
    assert line.loss.check(robot.safety) is None
    line = Line()
    for lost, severity in ((0.1, Severity.WARNING), (0.3, Severity.TRIP_IF_FOLLOWING), (0.0, None)):
        line.run(2.0, lost)
        found = line.loss.check(robot.safety)
        assert (found and found.severity) == severity


def test_the_loss_survives_a_restart_and_the_wrap_of_the_tick():
    line = Line(ticks=2000.0)
    line.cycles = 2**32 // 2000 - 400
    assert line.run(2.0) < 0.01
    line.loss.update(20.0 + 0.002 * line.cycles + 0.15, 5, line.counters)
    assert line.loss.share is None


def test_states_with_an_early_tick_are_warned_of_and_explain_why_none_is_new(robot):
    line, watch = Line(), LinkWatch()
    for number in range(1000):
        line.counters.old += 1
        line.counters.received += 1
        line.run(0.002)
        watch.check(20.0 + 0.002 * number, line.counters)
    assert line.loss.share == 0.0
    assert line.loss.check(robot.safety).name == "old_states"
    assert "tick" in watch.rejection
    watch.check(25.0, line.counters)
    assert watch.rejection is None


def test_network_events_are_reported_for_a_while():
    watch, counters = LinkWatch(), TransportCounters()
    assert watch.check(1.0, counters) == []
    counters.reject(WireError("checksum", "the checksum is wrong"))
    counters.foreign, counters.last_foreign = 3, ("10.0.0.9", 8007)
    counters.send_errors = 1
    watch.check(1.1, counters)
    found = {finding.name: finding for finding in watch.check(1.2, counters)}
    assert set(found) == {"rejected_packets", "foreign_packets", "unsent_commands"}
    assert "10.0.0.9:8007" in found["foreign_packets"].reason
    assert all(finding.severity is Severity.WARNING for finding in found.values())
    assert watch.rejection == "the checksum is wrong"
    assert watch.check(2.2, counters) == []
    assert watch.rejection is None


class Motion:
    """States of joints that swing, 2 ms apart."""

    def __init__(self, robot):
        self.watch, self.state = VelocityWatch(robot.safety), healthy_state(robot)
        self.now, self.cycles = 20.0, 0

    def run(self, seconds, measured=lambda velocity: velocity, late=0.0, rng=None, speed=1.0):
        """The names of what is found; `late`: longest delay [s] of a state, `speed` of the board's time."""
        found = set()
        for _ in range(round(seconds / 0.002)):
            self.cycles += 1
            self.now += 0.002
            phase = 2 * np.pi * 2.5 * 0.002 * self.cycles * speed
            position, velocity = np.full(12, 0.5 * np.sin(phase)), np.full(12, 5 * np.pi * 0.5 * np.cos(phase))
            rates = np.concatenate((measured(velocity), np.zeros(3)))
            state = replace(self.state, position=position)
            self.watch.update(self.now + late * (rng.random() if rng else 0.0), state, rates)
            found |= {self.watch.finding.name} if self.watch.finding else set()
        return found


def test_velocities_explain_how_joints_move(robot):
    rng = np.random.default_rng(0)
    assert Motion(robot).run(3.0) == set()
    assert Motion(robot).run(3.0, late=0.008, rng=rng) == set()
    assert Motion(robot).run(3.0, speed=0.6) == set()  # a simulated board on a busy machine
    assert Motion(robot).run(10.0, lambda velocity: velocity + 40.0 * (rng.random(12) < 0.02)) == set()  # spikes
    motion = Motion(robot)
    for _ in range(20):  # with gaps between the states
        motion.cycles += 100
        motion.now += 0.2
        assert motion.run(0.15) == set()


@pytest.mark.parametrize(
    "broken",
    [lambda velocity: -velocity, lambda velocity: 0.0 * velocity, lambda velocity: velocity + one(3, 8.0)],
    ids=["wrong_sign", "stuck", "offset"],
)
def test_velocities_that_contradict_the_positions_are_found(robot, broken):
    assert Motion(robot).run(2.0, broken) == {"velocity_mismatch"}


def test_a_trunk_that_turns_over_is_found_one_that_is_shaken_or_turns_about_its_vertical_is_not(robot):
    def falls(rate):
        watch = FallWatch(robot.safety)
        for number in range(200):
            watch.update(20.0 + 0.002 * number, np.array(rate(0.002 * number)))
            if found := watch.check():
                return found.name
        return None

    limit = robot.safety.max_fall_rate
    assert falls(lambda time: (0.0, 1.5 * limit, 0.0)) == falls(lambda time: (-limit, -limit, 0.0)) == "fall_rate"
    assert falls(lambda time: (0.0, 0.0, 5.0 * limit)) is None
    assert falls(lambda time: (3.0 * limit * np.sin(2 * np.pi * 10.0 * time), 0.0, 0.0)) is None
    assert falls(lambda time: (2.0 * limit if time < 0.06 else 0.0, 0.0, 0.0)) is None


def test_a_loop_is_late_where_its_commands_are_so_on_average(robot):
    def is_late(gaps):
        watch, now = LoopWatch(robot.safety, 0.002), 20.0
        for gap in gaps:
            now += gap
            found = watch.update(now)
        return found is not None

    assert not is_late([0.002] * 500)
    assert not is_late([0.004] * 500)
    assert not is_late([*[0.002] * 300, 0.045, *[0.002] * 3])
    assert not is_late([*[0.002] * 300, 3.0, *[0.002] * 3])  # a pause: the driver stops following
    assert is_late([0.02] * 100)
    assert is_late([*[0.002] * 10, 0.045] * 50)


def test_a_remote_at_rest_or_let_go_or_held_at_its_end_is_not_lost():
    watch = RemoteWatch(1.0, Severity.WARNING)
    for number, deflection in enumerate((0.6, 0.3, 0.05)):
        watch.update(20.0 + 0.02 * number, encode_remote(RemoteState(ly=deflection)))
    watch.update(20.06, bytes(40))
    assert watch.check(20.1) is None
    assert watch.check(30.0) is None
    watch.update(31.0, encode_remote(RemoteState(ly=1.0)))
    assert watch.check(39.0) is None
