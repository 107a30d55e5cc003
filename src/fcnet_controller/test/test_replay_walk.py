"""Where a bag does not tell the steps of a policy, it walks over the states as it does offline."""

from __future__ import annotations

import math

import numpy as np
import pytest
from rclpy.serialization import serialize_message
from rclpy.time import Time
from sensor_msgs.msg import Imu, JointState

from fcnet_controller.control_core import ControlSettings
from fcnet_controller.replay.core import ReplayCore
from fcnet_controller.replay.steps import ReplayWalk
from fcnet_core.robot import JOINT_NAMES, SETPOINT_FIELDS
from fcnet_core.runtime import load_policy
from fcnet_replay.policy_replay import walk_over_states
from fcnet_replay.run import RobotState, run_of_states
from fcnet_ros.state import seconds

RATE = 50.0
START = 1_795_248_733_266_570_334  # [ns]
COUNT = 60
VELOCITY = (0.3, 0.0, 0.1)


class States:
    """Joint states and IMU at the policy's rate."""

    def __init__(self, robot) -> None:
        rng = np.random.default_rng(5)
        self.position = robot.stand_pose + rng.normal(0, 0.05, (COUNT, 12))
        self.velocity, self.turn = rng.normal(0, 1, (COUNT, 12)), rng.normal(0, 0.1, (COUNT, 3))
        self.stamps = [Time(nanoseconds=START + step * 20_000_000).to_msg() for step in range(COUNT)]

    def send(self, replay: ReplayWalk, steps=range(COUNT), now: float = 0.0) -> list:
        """Let them arrive, with a command; what the policy says to it."""
        taken = []
        for step in steps:
            joints = JointState(name=list(JOINT_NAMES))
            joints.position, joints.velocity = list(self.position[step]), list(self.velocity[step])
            imu = Imu()
            imu.orientation.w = 1.0
            imu.angular_velocity.x, imu.angular_velocity.y, imu.angular_velocity.z = self.turn[step].tolist()
            joints.header.stamp = imu.header.stamp = self.stamps[step]
            replay.add_joints(serialize_message(joints), now)
            replay.source.set_velocity(*VELOCITY, replay.time)
            taken += replay.advance(now)
            replay.imu.add(serialize_message(imu))
            taken += replay.advance(now)
        return taken

    def offline(self, robot, model):
        """What the policy says to all of them without ROS."""
        setpoint = np.zeros((COUNT, len(SETPOINT_FIELDS)))
        setpoint[:, :3] = VELOCITY
        time = np.array([seconds(stamp) for stamp in self.stamps])
        first = np.arange(COUNT) == 0
        upright = np.tile([0.0, 0.0, 0.0, 1.0], (COUNT, 1))
        states = RobotState(self.position, self.velocity, upright, self.turn)
        run = run_of_states(time, states, setpoint, np.full((COUNT, 12), np.nan), first)
        return walk_over_states(run, load_policy(model, "numpy"), model, robot).action


@pytest.fixture
def replay(robot, model):
    told: list[str] = []
    core = ReplayCore(robot, model, load_policy(model, "numpy"), ControlSettings(follows_targets=False))
    made = ReplayWalk(core, RATE, told.append)
    made.told, made.source = told, made.commands.add_source("cmd_vel")
    return made


@pytest.fixture(scope="module")
def states(robot):
    return States(robot)


def test_it_walks_as_offline(replay, states, robot, model):
    taken = states.send(replay)
    assert [step.stamp for step in taken] == states.stamps
    np.testing.assert_allclose([step.targets for step in taken], states.offline(robot, model), atol=1e-9)
    assert (replay.lost, replay.told) == (0, [])


def test_after_a_gap_it_starts_cold_and_says_so(replay, states):
    states.send(replay, range(10))
    after = states.send(replay, range(30, COUNT))
    assert replay.told == ["there are no joint_states for 0.420 s"]
    assert len(after) == COUNT - 30


def test_when_time_jumps_back_it_starts_cold_and_says_so(replay, states):
    first = states.send(replay)
    again = states.send(replay)
    assert replay.told == ["time has jumped back by 1.180 s"]
    np.testing.assert_array_equal([step.targets for step in first], [step.targets for step in again])


def test_states_without_imu_are_lost(replay, states):
    states.send(replay, range(5))
    joints = JointState(name=list(JOINT_NAMES), position=[0.0] * 12, velocity=[0.0] * 12)
    joints.header.stamp = Time(nanoseconds=START + 90_000_000 + 100_000_000).to_msg()
    replay.add_joints(serialize_message(joints), now=0.0)
    assert list(replay.advance(now=0.4)) == []
    assert replay.lost == 0
    assert list(replay.advance(now=math.inf)) == []
    assert replay.lost == 1
    assert "no imu/data" in replay.told[-1]
