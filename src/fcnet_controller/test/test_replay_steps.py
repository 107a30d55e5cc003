"""Recorded steps are taken again exactly, whatever the order in which their messages arrive."""

from __future__ import annotations

import copy
import math
import random

import numpy as np
import pytest
from rclpy.serialization import serialize_message
from rclpy.time import Time
from sensor_msgs.msg import Imu, JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from fcnet_controller.control_core import ControlSettings
from fcnet_controller.posture import Mode
from fcnet_controller.replay.core import ReplayCore
from fcnet_controller.replay.steps import ReplaySteps
from fcnet_core.limiter import JointLimiter
from fcnet_core.observation import PolicyStep, assemble_observation
from fcnet_core.robot import JOINT_NAMES
from fcnet_core.runtime import load_policy
from fcnet_ros.state import seconds

RATE = 50.0
START = 1_795_248_733_266_570_334  # [ns]
COUNT = 100
COLD_AGAIN = 30  # a step at which the recorded policy began once more


class Walk:
    """A run of a policy, with every message that a recorder would have seen. kept: what of it is in the bag."""

    def __init__(self, robot, model) -> None:
        rng, policy = np.random.default_rng(3), load_policy(model, "numpy")
        limiter = JointLimiter(robot, 1.0 / RATE)
        limiter.start(robot.stand_pose)
        self.joints, self.imu, self.steps = [], [], []
        self.targets = [self._trajectory(-1, robot.stand_pose)]
        self.sent = []
        for step in range(COUNT):
            if cold := step in (0, COLD_AGAIN):
                policy.reset()
            position, velocity = robot.stand_pose + rng.normal(0, 0.05, 12), rng.normal(0, 1, 12)
            orientation, turn, command = np.array([0.0, 0.0, 0.0, 1.0]), rng.normal(0, 0.1, 3), rng.normal(0, 0.1, 16)
            last = limiter.last
            action = policy.step(assemble_observation(orientation, turn, position, velocity, last, command))
            self.sent.append(limiter.limit(action.astype(np.float64)))
            joints = JointState(name=list(JOINT_NAMES), position=list(position), velocity=list(velocity))
            imu = Imu()
            imu.orientation.w = 1.0
            imu.angular_velocity.x, imu.angular_velocity.y, imu.angular_velocity.z = turn.tolist()
            joints.header.stamp, imu.header.stamp = self._stamp(step, -3_000_000), self._stamp(step, -4_000_000)
            self.joints.append(joints)
            self.imu.append(imu)
            self.targets.append(self._trajectory(step, self.sent[-1]))
            stamps = (self.targets[-1], self.targets[-2], joints, imu)
            self.steps.append(PolicyStep(*(seconds(message.header.stamp) for message in stamps), cold, command))

    @staticmethod
    def _stamp(step: int, offset: int = 0):
        return Time(nanoseconds=START + step * 20_000_000 + offset).to_msg()

    def _trajectory(self, step: int, positions) -> JointTrajectory:
        message = JointTrajectory(
            joint_names=list(JOINT_NAMES), points=[JointTrajectoryPoint(positions=list(positions))]
        )
        message.header.stamp = self._stamp(step)
        return message


@pytest.fixture(scope="module")
def walk(robot, model):
    return Walk(robot, model)


class Replay(ReplaySteps):
    """A replay with all that it says."""

    def __init__(self, robot, model) -> None:
        self.told: list[str] = []
        self.core = ReplayCore(robot, model, load_policy(model, "numpy"), ControlSettings(follows_targets=False))
        super().__init__(self.core, 1, self.told.append)

    def see(self, walk: Walk, step: int, *parts: str) -> None:
        """Let messages of a step arrive."""
        for part in parts or ("joints", "imu", "targets"):
            message = getattr(walk, part)[step + (part == "targets")]
            getattr(self, part).add(serialize_message(message))

    def see_all(self, walk: Walk, steps=range(COUNT), without=()) -> None:
        """Let everything of these steps arrive, in order."""
        for step in steps:
            self.see(walk, step)
            if step not in without:
                self.add(walk.steps[step], now=0.0)


@pytest.fixture
def replay(robot, model, walk):
    made = Replay(robot, model)
    made.targets.add(serialize_message(walk.targets[0]))
    return made


def test_the_same_policy_says_the_same_again(replay, walk):
    replay.see_all(walk)
    taken = list(replay.advance(now=0.1))
    assert [seconds(step.stamp) for step in taken] == [step.target_stamp for step in walk.steps]
    np.testing.assert_array_equal([step.targets for step in taken], walk.sent)
    assert all(step.comparable and step.difference == 0.0 for step in taken)
    assert (replay.lost, replay.told) == (0, [])


def test_topics_may_arrive_in_any_order_among_each_other(replay, walk):
    arrivals = {part: list(range(COUNT)) for part in ("joints", "imu", "targets", "steps")}
    chance, taken = random.Random(1), []
    while arrivals:
        part = chance.choice(list(arrivals))
        step = arrivals[part].pop(0)
        if part == "steps":
            replay.add(walk.steps[step], now=0.0)
        else:
            replay.see(walk, step, part)
        if not arrivals[part]:
            del arrivals[part]
        taken += replay.advance(now=0.1)
    np.testing.assert_array_equal([step.targets for step in taken], walk.sent)
    assert replay.told == []


@pytest.mark.parametrize("part", ["joints", "imu", "targets"])
def test_a_step_whose_message_is_missing_is_lost_and_the_next_one_starts_cold(replay, walk, part):
    for step in range(COUNT):
        replay.see(walk, step, *({"joints", "imu", "targets"} - ({part} if step == 10 else set())))
        replay.add(walk.steps[step], now=0.0)
    taken = list(replay.advance(now=math.inf))
    lost = 2 if part == "targets" else 1  # a target is also what the next step sent before
    assert replay.lost == lost
    assert len(taken) == COUNT - lost
    assert "is not in the recording" in replay.told[0]
    comparable = [step.comparable for step in taken]
    assert comparable == [True] * 10 + [False] * (COLD_AGAIN - 10 - lost) + [True] * (COUNT - COLD_AGAIN)
    assert max(step.difference for step in taken if step.comparable) == 0.0
    assert max(step.difference for step in taken if not step.comparable) > 1e-5


def test_a_message_is_waited_for_while_its_topic_is_behind(replay, walk):
    for step in range(2):
        replay.see(walk, step, "joints", "targets")
        replay.add(walk.steps[step], now=0.0)
    assert list(replay.advance(now=5.0)) == []
    assert replay.lost == 0
    replay.see(walk, 0, "imu")
    assert len(list(replay.advance(now=5.0))) == 1
    assert list(replay.advance(now=30.0)) == []
    assert replay.lost == 1


def test_a_message_that_its_topic_has_passed_is_not_waited_for_long(replay, walk):
    replay.see(walk, 0, "joints", "targets")
    replay.add(walk.steps[0], now=0.0)
    replay.see(walk, 1, "imu")
    assert list(replay.advance(now=0.1)) == []
    assert replay.lost == 0
    assert list(replay.advance(now=1.0)) == []
    assert replay.lost == 1


def test_missing_steps_are_noticed(replay, walk):
    replay.see_all(walk, without=(12, 13))
    taken = list(replay.advance(now=0.1))
    assert len(taken) == COUNT - 2
    assert len(replay.told) == 1
    assert "are missing" in replay.told[0]
    assert not taken[12].comparable
    assert taken[-1].comparable


def test_steps_are_compared_again_once_both_policies_have_forgotten_what_was_before(replay, walk, model):
    replay.see_all(walk, without=(40,))
    forgotten = 41 + model.card.memory
    assert forgotten < COUNT
    taken = list(replay.advance(now=0.1))
    assert [step.comparable for step in taken] == [True] * 40 + [False] * (forgotten - 41) + [True] * (
        COUNT - forgotten
    )
    assert max(step.difference for step in taken[40 : forgotten - 1]) > 1e-5
    assert max(step.difference for step in taken if step.comparable) < 1e-6


def test_a_recording_that_begins_in_the_middle_of_a_walk_is_told(replay, walk):
    replay.see(walk, 4)
    replay.see_all(walk, range(5, COUNT))
    taken = list(replay.advance(now=0.1))
    assert replay.told == ["the recording begins in the middle of a walk"]
    assert not taken[0].comparable
    assert taken[-1].comparable


def test_time_that_jumps_back_mixes_nothing(replay, walk):
    middle = range(COLD_AGAIN + 2, COUNT)
    replay.see(walk, COLD_AGAIN + 1)
    replay.see_all(walk, middle)
    first = list(replay.advance(now=0.1))
    replay.see_all(walk, middle)
    again = list(replay.advance(now=0.1))
    assert len(replay.told) == 2
    assert "time has jumped back by 1.340 s" in replay.told[1]
    np.testing.assert_array_equal([step.targets for step in first], [step.targets for step in again])


def test_a_recording_that_begins_anew_while_a_step_is_waited_for_mixes_nothing(replay, walk):
    for _ in range(2):
        for step in range(COUNT):
            replay.see(walk, step, *({"joints", "targets"} | ({"imu"} if step != 10 else set())))
            replay.add(walk.steps[step], now=0.0)
    taken = list(replay.advance(now=10.0))
    assert replay.lost == 2
    assert len(taken) == 2 * (COUNT - 1)
    assert ["jumped back" in sentence for sentence in replay.told] == [False, True, False]
    assert max(step.difference for step in taken if step.comparable) == 0.0


def test_states_that_cannot_be_are_told_and_not_used(replay, walk, robot):
    broken = JointState(name=list(JOINT_NAMES), position=[float("nan")] * 12, velocity=[0.0] * 12)
    broken.header.stamp = walk.joints[10].header.stamp
    replay.see_all(walk)
    replay.joints.add(serialize_message(broken))
    taken = list(replay.advance(now=0.1))
    assert len(taken) == COUNT - 1
    assert replay.lost == 1
    assert "is not a finite number" in replay.told[0]
    assert all(np.isfinite(step.targets).all() for step in taken)


def test_a_fault_of_the_controller_is_told_and_the_replay_goes_on(replay, walk):
    tilted = copy.deepcopy(walk.imu[10])
    tilted.orientation.x, tilted.orientation.w = math.sin(0.7), math.cos(0.7)
    replay.see_all(walk)
    replay.imu.add(serialize_message(tilted))
    taken = list(replay.advance(now=0.1))
    assert (len(taken), replay.lost, replay.faults) == (COUNT - 1, 1, 1)
    (told,) = replay.told
    assert f"the controller is in fault at {walk.steps[10].target_stamp:.3f} s: the robot is tilted by 1.40 rad" in told
    assert [step.comparable for step in taken] == [True] * 10 + [False] * (COLD_AGAIN - 11) + [True] * (
        COUNT - COLD_AGAIN
    )
    assert max(step.difference for step in taken if step.comparable) == 0.0
    assert replay.core.mode is Mode.WALKING


def test_an_emergency_stop_lasts_until_it_is_reset(replay, walk):
    replay.see_all(walk, range(10))
    list(replay.advance(now=0.1))
    replay.core.emergency_stop()
    replay.see_all(walk, range(10, 20))
    assert list(replay.advance(now=0.1)) == []
    assert replay.faults == 10
    assert all("emergency stop" in sentence for sentence in replay.told)
    assert replay.core.mode is Mode.FAULT
    replay.core.reset()
    replay.see_all(walk, range(20, COUNT))
    assert [step.comparable for step in replay.advance(now=0.1)] == [False] * 10 + [True] * (COUNT - COLD_AGAIN)


@pytest.mark.parametrize("request_name", ["stand_up", "walk", "lie_down"])
def test_the_recording_alone_decides_what_the_robot_does(replay, walk, request_name):
    replay.see_all(walk, range(10))
    list(replay.advance(now=0.1))
    arguments = [0.0] if request_name == "stand_up" else []
    answer = getattr(replay.core, request_name)(*arguments)
    assert not answer.accepted
    assert "the recording decides" in answer.sentence
    replay.see_all(walk, range(10, COUNT))
    assert all(step.comparable and step.difference == 0.0 for step in replay.advance(now=0.1))


def test_the_controller_tells_its_steps_as_it_does_live(replay, walk):
    replay.see_all(walk, range(10))
    for recorded, _ in zip(walk.steps, replay.advance(now=0.1), strict=False):
        told = replay.core.policy_step
        assert (told.joints_stamp, told.imu_stamp, told.cold) == (
            recorded.joints_stamp,
            recorded.imu_stamp,
            recorded.cold,
        )
        np.testing.assert_array_equal(told.command, recorded.command)
