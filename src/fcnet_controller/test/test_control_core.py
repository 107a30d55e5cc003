import math
import time
from dataclasses import replace

import numpy as np
import pytest
from msgspec import convert, structs
from rclpy.serialization import serialize_message
from sensor_msgs.msg import Imu, JointState

from fcnet_controller.control_core import ControlCore
from fcnet_controller.control_loop import DAMPING_MESSAGES, ControlLoop, RealTimePace, SimulatedPace
from fcnet_controller.controller_node import AutoStart
from fcnet_controller.parameters import ControllerParameters
from fcnet_core import FcnetError
from fcnet_core.control.command import Mode
from fcnet_core.control.envelope import Envelope
from fcnet_core.legs.stand_motion import LYING, StandPath
from fcnet_core.policy import load_policy
from fcnet_core.robot import JOINT_NAMES, SETPOINT_FIELDS

UPRIGHT = np.array([0.0, 0.0, 0.0, 1.0])


def store(state, bench, joints_stamp=0, imu_stamp=0):
    """Store the state of a bench's robot as messages received now; stamps [s]."""
    joints, imu = JointState(name=bench.names, position=bench.position, velocity=bench.velocity), Imu()
    joints.header.stamp.sec, imu.header.stamp.sec = joints_stamp, imu_stamp
    attitude = imu.orientation
    attitude.x, attitude.y, attitude.z, attitude.w = bench.orientation.tolist()
    state.store_joints(serialize_message(joints), bench.now)
    state.store_imu(serialize_message(imu), bench.now)


class RecordingPolicy:
    """The real policy, which also records its observations."""

    def __init__(self, model):
        self._policy = load_policy(model, "numpy")
        self.observations = []
        self.resets = 0
        self.fixed_action = None

    def reset(self):
        self.resets += 1
        self._policy.reset()

    def step(self, observation):
        self.observations.append(observation)
        action = self._policy.step(observation)
        return action if self.fixed_action is None else self.fixed_action


class Bench:
    """A core with an ideal robot: every joint is at its target one cycle later."""

    def __init__(self, robot, model, rate=50.0):
        self.robot, self.period, self.now = robot, 1 / rate, 100.0
        self.policy = RecordingPolicy(model)
        self.core = ControlCore(robot, model, self.policy, ControllerParameters(control_rate=rate, stand_up_time=1.0))
        self.source = self.core.commands.add_source("operator")
        self.position = robot.lie_pose.copy()
        self.velocity = np.zeros(12)
        self.orientation = UPRIGHT
        self.names = list(JOINT_NAMES)
        self.silent = False
        self.sent = []

    def run(self, seconds, **command):
        for _ in range(round(seconds / self.period)):
            self.now += self.period
            if not self.silent:
                store(self.core.state, self)
            if command:
                self.source.set_velocity(command["vx"], 0.0, 0.0, self.now)
            self.core.prepare(self.now)
            target = self.core.cycle(self.now)
            self.sent.append(target)
            if target is not None:
                self.position = target.copy()

    def walk(self):
        self.run(0.1)
        self.core.stand_up(self.now)
        self.run(1.2)
        self.core.walk()
        self.run(0.1)
        assert self.core.mode is Mode.WALKING
        return self


@pytest.fixture
def bench(robot, model):
    return Bench(robot, model)


def commands_seen(bench):
    return np.array([observation[54:70] for observation in bench.policy.observations])


def test_a_passive_robot_is_damped(bench):
    bench.run(0.2)
    assert bench.sent == [None] * len(bench.sent)
    assert not bench.policy.observations


def test_targets_stay_within_limits_and_slew_from_lying_to_walking(bench, robot):
    bench.walk().run(2.0, vx=0.5)
    sent = np.array([target for target in bench.sent if target is not None])
    assert ((robot.lower <= sent) & (sent <= robot.upper)).all()
    assert np.abs(np.diff(sent, axis=0)).max() <= robot.safety.max_target_rate * bench.period + 1e-9


def test_standing_up_needs_a_state(bench):
    with pytest.raises(FcnetError, match="joint_states"):
        bench.core.stand_up(bench.now)


def test_a_robot_on_its_side_does_not_stand_up(bench):
    bench.orientation = np.array([math.sin(0.7), 0.0, 0.0, math.cos(0.7)])
    bench.run(0.1)
    with pytest.raises(FcnetError, match="tilted"):
        bench.core.stand_up(bench.now)


def test_the_policy_sees_the_command_and_the_last_target(bench):
    bench.walk().run(1.5, vx=0.5)
    assert commands_seen(bench)[-1][0] == pytest.approx(0.5)
    assert commands_seen(bench)[-1][10] == 1.0
    np.testing.assert_allclose(bench.policy.observations[-1][42:54], bench.sent[-2], atol=1e-6)


def test_a_stale_command_makes_the_robot_stand_while_it_stays_in_walking_mode(bench):
    bench.walk().run(1.5, vx=0.5)
    bench.run(3.0)
    assert bench.core.mode is Mode.WALKING
    np.testing.assert_allclose(commands_seen(bench)[-1][:3], 0.0)
    assert commands_seen(bench)[-1][10] == 0.0


def test_a_huge_command_is_clipped_to_the_models_range(bench, model):
    bench.walk().run(3.0, vx=1e9)
    assert commands_seen(bench)[:, 0].max() == pytest.approx(model.command_ranges["vx"].highest)


def test_a_driver_is_told_how_commands_are_limited(robot, model):
    ranges = {field: [[-0.02, 0.02], [0.0, 0.0]] for field in SETPOINT_FIELDS[1:]}
    envelope = convert({"vx": [0.0, 0.4], "ranges": ranges}, Envelope)
    bench = Bench(robot, replace(model, card=structs.replace(model.card, envelope=envelope)))
    bench.walk().run(1.0, vx=0.3)
    assert bench.core.limited == ""
    bench.run(1.0, vx=1.0)
    assert bench.core.limited == "vx 1 to 0.4"
    assert commands_seen(bench)[-1][0] == pytest.approx(0.4)
    bench.source.set_pose(-0.01, (0, 0, 0, 1), bench.now)
    bench.run(1.0, vx=1.0)
    assert bench.core.limited == "vx 1 to 0.2"
    np.testing.assert_allclose(commands_seen(bench)[-1][:4], [0.2, 0.0, 0.0, -0.01], atol=1e-6)


def test_every_walk_starts_cold_with_the_clock_at_rest(bench):
    bench.walk().run(1.0, vx=0.5)
    resets = bench.policy.resets
    bench.core.emergency_stop()
    bench.run(0.1)
    bench.core.reset()
    seen = len(bench.policy.observations)
    bench.walk()
    assert bench.policy.resets == resets + 1
    np.testing.assert_allclose(commands_seen(bench)[seen], [0] * 9 + [1] + [0] * 6)


def test_commands_from_before_a_reset_are_forgotten(bench):
    bench.walk().run(0.5, vx=0.5)
    bench.source.set_pose(-0.05, (0, 0, 0, 1), bench.now)
    bench.core.emergency_stop()
    bench.core.reset()
    np.testing.assert_allclose(bench.core.commands.wanted(bench.now), 0.0)


class Simulation:
    """Its states have these stamps [s], one after the other."""

    def __init__(self, bench, stamps):
        self.bench, self.stamps, self.ended = bench, iter(stamps), False

    def poll(self):
        if (stamp := next(self.stamps, None)) is not None:
            store(self.bench.core.state, self.bench, stamp, stamp)
        self.ended = stamp is None
        return not self.ended


def test_commands_of_a_simulated_time_that_went_back_do_not_count_again(bench):
    simulation = Simulation(bench, [50, 1, 50])
    cycles = SimulatedPace(bench.core, simulation, None, bench.period).cycles(lambda: simulation.ended)
    now = next(cycles)
    bench.source.set_velocity(0.5, 0.0, 0.0, now)
    assert bench.core.commands.wanted(now)[0] == 0.5
    for now in cycles:
        np.testing.assert_allclose(bench.core.commands.wanted(now), 0.0)


def fail_tilt(bench):
    bench.orientation = np.array([math.sin(0.7), 0.0, 0.0, math.cos(0.7)])


def fail_joint_name(bench):
    bench.names[3] = "something_else"


def fail_nan(bench):
    bench.velocity[2] = math.nan


def fail_silence(bench):
    bench.silent = True


def fail_policy(bench):
    bench.policy.fixed_action = np.full(12, math.nan, np.float32)


def fail_emergency(bench):
    bench.core.emergency_stop()


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (fail_tilt, "tilted"),
        (fail_joint_name, "FL_hip_joint"),
        (fail_nan, "not a finite number"),
        (fail_silence, "s old"),
        (fail_policy, "policy"),
        (fail_emergency, "emergency stop"),
    ],
)
def test_a_failure_while_walking_damps_and_latches(bench, failure, words):
    bench.walk()
    failure(bench)
    bench.run(0.4)
    assert bench.core.mode is Mode.FAULT
    assert words in bench.core.fault
    assert bench.sent[-1] is None
    bench.orientation, bench.names, bench.velocity = UPRIGHT, list(JOINT_NAMES), np.zeros(12)
    bench.silent, bench.policy.fixed_action = False, None
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


def test_a_loop_that_stood_still_for_longer_than_a_state_may_be_old_is_a_fault(bench):
    bench.walk()
    bench.core.stop_after_stall(0.19)
    assert bench.core.mode is Mode.WALKING
    bench.core.stop_after_stall(0.21)
    assert "stood still for 0.21 s" in bench.core.fault


class Receiver:
    """Stores good states, and pauses in the middle of a cycle where it is asked to."""

    def __init__(self, bench):
        self.bench, self.pause, self.paused = bench, 0.0, False

    def receive(self, _deadline, _until):
        pause, self.pause = self.pause, 0.0
        self.paused = self.paused or pause > 0
        time.sleep(pause)
        self.bench.now = time.monotonic()
        store(self.bench.core.state, self.bench)


class Publisher:
    """Keeps what was sent since the pause."""

    def __init__(self, receiver):
        self.receiver, self.sent = receiver, []

    def publish(self, target, _stamp):
        if self.receiver.paused:
            self.sent.append(target)

    def publish_step(self, _step):
        pass

    def wait_until_received(self, _timeout):
        pass


def test_a_loop_that_was_stopped_in_the_middle_of_a_cycle_sends_damping_when_it_goes_on(bench):
    bench.now = time.monotonic()
    bench.walk()
    receiver = Receiver(bench)
    publisher = Publisher(receiver)
    loop = ControlLoop(bench.core, RealTimePace(bench.core, receiver, 0.02), publisher, 0.02, lambda: None)
    loop.start()
    receiver.pause = 0.5
    deadline = time.monotonic() + 10.0
    while not publisher.sent and time.monotonic() < deadline:
        time.sleep(0.01)
    loop.stop()
    assert publisher.sent
    assert publisher.sent == [None] * len(publisher.sent)
    assert "stood still for 0." in bench.core.fault


class DeadPublisher(Publisher):
    """Cannot publish any longer."""

    def publish(self, target, stamp):
        raise RuntimeError("publisher is invalid")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("kind", [Publisher, DeadPublisher])
def test_a_loop_that_an_error_has_ended_is_not_running_when_that_is_told(bench, kind):
    def fail(_now):
        raise RuntimeError("an error")

    bench.now = time.monotonic()
    bench.core.cycle = fail
    receiver = Receiver(bench)
    receiver.paused, publisher, told = True, kind(receiver), []
    pace = RealTimePace(bench.core, receiver, 0.02)
    loop = ControlLoop(bench.core, pace, publisher, 0.02, lambda: told.append(loop.is_running))
    loop.start()
    deadline = time.monotonic() + 10.0
    while not told and time.monotonic() < deadline:
        time.sleep(0.01)
    assert told == [False]
    assert kind is DeadPublisher or publisher.sent == [None] * DAMPING_MESSAGES


def test_a_robot_whose_bridge_would_not_follow_is_not_seen_to_stand_up(bench):
    bench.run(0.1)
    bench.core.set_target_refusal("12 % of the packets are lost")
    with pytest.raises(FcnetError, match="12 % of the packets are lost"):
        bench.core.stand_up(bench.now)
    bench.core.set_target_refusal("")
    bench.walk()


def refuse(core):
    core.set_target_refusal("a damp must come first")


def follow_another(core):
    core.set_target_owner("/other ab12", is_own=False)


def follow_nobody(core):
    core.set_target_owner("", is_own=False)


def stand(bench):
    bench.run(1.2)


def lie_down(bench):
    stand(bench)
    bench.core.lie_down()


def walk(bench):
    stand(bench)
    bench.core.walk()


@pytest.mark.parametrize("rate", [50.0, 500.0])
@pytest.mark.parametrize("begin", [lambda bench: None, stand, walk, lie_down])
@pytest.mark.parametrize(
    ("stop_following", "words"), [(refuse, "a damp must come first"), (follow_another, "/other"), (follow_nobody, "")]
)
def test_a_controller_whose_targets_are_not_followed_goes_to_fault_after_100_ms(
    robot, model, rate, begin, stop_following, words
):
    bench = Bench(robot, model, rate)
    bench.run(0.1)
    bench.core.set_target_owner("", is_own=False)
    bench.core.stand_up(bench.now)
    bench.run(0.06)
    bench.core.set_target_owner("/controller 0123", is_own=True)
    begin(bench)
    bench.run(0.1)
    mode = bench.core.mode
    stop_following(bench.core)
    bench.run(0.08)
    assert bench.core.mode is mode
    bench.run(0.06)
    assert bench.core.mode is Mode.FAULT
    assert words in bench.core.fault
    assert bench.sent[-1] is None


def test_a_bridge_that_hesitates_to_follow_and_one_that_never_begins(bench):
    bench.run(0.1)
    for hesitation, mode in ((0.4, Mode.STANDING_UP), (0.6, Mode.FAULT)):
        follow_nobody(bench.core)
        bench.core.stand_up(bench.now)
        bench.run(hesitation)
        bench.core.set_target_owner("/controller 0123", is_own=True)
        bench.run(0.1)
        assert bench.core.mode is mode
        bench.core.make_passive()


def test_a_short_refusal_passes(bench):
    bench.walk()
    for _ in range(10):
        refuse(bench.core)
        bench.run(0.08)
        bench.core.set_target_refusal("")
        bench.run(bench.period)
    assert bench.core.mode is Mode.WALKING


def test_a_robot_that_follows_another_controller_is_not_seen_to_stand_up(bench):
    bench.run(0.1)
    follow_another(bench.core)
    with pytest.raises(FcnetError, match="/other"):
        bench.core.stand_up(bench.now)


def test_each_step_of_the_policy_says_what_it_saw(bench):
    bench.walk()
    bench.now += bench.period
    store(bench.core.state, bench, joints_stamp=12, imu_stamp=13)
    bench.core.prepare(bench.now)
    bench.core.cycle(bench.now)
    step = bench.core.policy_step
    assert (step.cold, step.joints_stamp, step.imu_stamp) == (False, 12.0, 13.0)
    np.testing.assert_allclose(step.command, bench.policy.observations[-1][54:70], atol=1e-6)


def test_a_state_that_is_not_finite_never_reaches_the_policy(bench):
    bench.walk()
    fail_nan(bench)
    bench.run(0.1)
    assert np.isfinite(np.array(bench.policy.observations)).all()


@pytest.mark.filterwarnings("ignore:overflow")
def test_an_observation_beyond_single_precision_is_a_fault(bench):
    bench.walk()
    bench.velocity[:] = 1e300
    bench.run(0.1)
    assert bench.core.mode is Mode.FAULT


def test_a_blocked_leg_is_a_fault(bench, robot):
    bench.walk()
    for _ in range(20):
        bench.position[2] = robot.lower[2]
        bench.run(bench.period)
    assert bench.core.mode is Mode.FAULT
    assert "FR_calf_joint" in bench.core.fault


def test_a_walking_robot_comes_to_rest_and_then_lies_down(bench, robot):
    bench.walk().run(1.0, vx=0.5)
    bench.core.lie_down()
    bench.run(0.5, vx=0.5)
    assert bench.core.mode is Mode.WALKING
    bench.run(4.5, vx=0.5)
    assert bench.core.mode is Mode.PASSIVE
    np.testing.assert_allclose(bench.position, StandPath(robot).pose(LYING), atol=0.01)


def test_a_faster_loop_asks_the_policy_at_its_own_rate_and_holds_its_targets(robot, model):
    bench = Bench(robot, model, rate=200.0).walk()
    seen = len(bench.policy.observations)
    bench.run(1.0, vx=0.5)
    assert len(bench.policy.observations) - seen == 50
    sent = np.array(bench.sent[-200:])
    assert (np.diff(sent, axis=0) == 0).all(axis=1).sum() >= 140


@pytest.mark.parametrize("rate", [40.0, 75.0, 25.0])
def test_a_rate_that_does_not_suit_the_model_is_refused(robot, model, rate):
    with pytest.raises(ValueError, match="50 Hz"):
        Bench(robot, model, rate=rate)


def test_auto_start_stands_up_and_walks_once(bench):
    auto_start = AutoStart(bench.core)
    auto_start.advance(bench.now)
    assert bench.core.mode is Mode.PASSIVE
    for _ in range(200):
        bench.run(bench.period)
        auto_start.advance(bench.now)
    assert bench.core.mode is Mode.WALKING
    bench.core.emergency_stop()
    bench.core.reset()
    bench.run(0.5)
    auto_start.advance(bench.now)
    assert bench.core.mode is Mode.PASSIVE


ON_ITS_BACK = np.array([1.0, 0.0, 0.0, 0.0])


def fallen(bench):
    bench.orientation = ON_ITS_BACK
    bench.run(0.1)
    return bench


def test_a_robot_on_its_back_recovers_then_stands_and_walks(bench, robot):
    fallen(bench).core.recover(bench.now)
    bench.run(1.0)
    assert bench.core.mode is Mode.RECOVERING
    bench.orientation = UPRIGHT
    bench.run(5.0)
    assert bench.core.mode is Mode.STANDING
    sent = np.array([target for target in bench.sent if target is not None])
    assert ((robot.lower <= sent) & (sent <= robot.upper)).all()
    assert np.abs(np.diff(sent, axis=0)).max() <= robot.safety.max_target_rate * bench.period + 1e-9
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


def walking(bench):
    bench.walk()


def in_fault(bench):
    fallen(bench).core.emergency_stop()


def with_a_joint_beyond_its_limits(bench):
    bench.position[4] = bench.robot.upper[4] + 2 * bench.robot.safety.position_margin
    fallen(bench)


def with_an_old_state(bench):
    fallen(bench).now += 1.0


def refused_by_bridge(bench):
    fallen(bench).core.set_target_refusal("the robot is tilted")


def tripped_by_bridge(bench):
    fallen(bench).core.set_bridge_fault("tilt")


@pytest.mark.parametrize(
    "situation",
    [
        walking,
        in_fault,
        with_a_joint_beyond_its_limits,
        with_an_old_state,
        refused_by_bridge,
        tripped_by_bridge,
    ],
)
def test_a_recovery_is_refused_where_it_cannot_be(bench, situation):
    situation(bench)
    mode = bench.core.mode
    with pytest.raises(FcnetError):
        bench.core.recover(bench.now)
    assert bench.core.mode is mode is not Mode.RECOVERING


@pytest.mark.parametrize("way", ["emergency stop", "old state", "stalled loop", "bridge"])
def test_a_recovery_ends_in_fault_for_everything_but_the_tilt(bench, way):
    fallen(bench).core.recover(bench.now)
    bench.run(0.5)
    if way == "emergency stop":
        bench.core.emergency_stop()
    elif way == "stalled loop":
        bench.core.stop_after_stall(1.0)
    elif way == "bridge":
        bench.core.set_bridge_fault("joint_velocity")
    bench.silent = way == "old state"
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
    with pytest.raises(FcnetError, match="recovering"):
        getattr(bench.core, request_name)()
    bench.core.recover(bench.now)
    bench.run(0.1)
    assert bench.core.mode is Mode.RECOVERING
