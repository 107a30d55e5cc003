"""A controller with an ideal robot, in simulated time and without a node."""

import math

import numpy as np
import pytest
from rclpy.serialization import serialize_message
from sensor_msgs.msg import Imu, JointState

from fcnet_core.control.controller import STATE_TIMEOUT, Controller
from fcnet_core.control.runner import JointLimiter, PolicyRunner
from fcnet_core.names import Mode
from fcnet_core.policy import load_policy
from fcnet_ros.state_messages import StateBuffer

UPRIGHT = np.array([0.0, 0.0, 0.0, 1.0])


class RecordingPolicy:
    """The real policy, which also records its observations."""

    def __init__(self, model):
        self._policy = load_policy(model)
        self.observations = []
        self.resets = 0
        self.fixed_action = None

    def reset(self, mask=None):
        self.resets += 1
        self._policy.reset(mask)

    def step(self, observation):
        self.observations.append(observation)
        action = self._policy.step(observation)
        return action if self.fixed_action is None else self.fixed_action


class Bench:
    """A controller of an ideal robot: every joint is at its target one cycle later."""

    def __init__(self, robot, model, rate):
        self.robot, self.period, self.now = robot, 1 / rate, 100.0
        self.policy = RecordingPolicy(model)
        runner = PolicyRunner(self.policy, model.card.interface, JointLimiter(robot, self.period))
        self.state = StateBuffer(robot.joint_names, STATE_TIMEOUT)
        self.core = Controller(robot, self.state, runner, stand_up_time=1.0)
        self.source = self.core.commands.add_source("operator")
        self.position = robot.lie_pose.copy()
        self.velocity = np.zeros(12)
        self.orientation, self.angular_velocity = UPRIGHT, np.zeros(3)
        self.names = list(robot.joint_names)
        self.silent = False
        self.stamps = (0, 0)  # [s] of all joint states and IMU messages; 0: none
        self.sent = []

    def store(self, joints_stamp=0, imu_stamp=0):
        """Store the robot's state as messages received now; stamps [s]."""
        joints, imu = JointState(name=self.names, position=self.position, velocity=self.velocity), Imu()
        joints.header.stamp.sec, imu.header.stamp.sec = joints_stamp, imu_stamp
        attitude = imu.orientation
        attitude.x, attitude.y, attitude.z, attitude.w = self.orientation.tolist()
        turning = imu.angular_velocity
        turning.x, turning.y, turning.z = self.angular_velocity.tolist()
        self.state.store_joints(serialize_message(joints), self.now)
        self.state.store_imu(serialize_message(imu), self.now)

    def run(self, seconds, **command):
        for _ in range(round(seconds / self.period)):
            self.now += self.period
            if not self.silent:
                self.store(*self.stamps)
            if command:
                self.source.set_velocity(command["vx"], 0.0, 0.0, self.now)
            self.core.prepare(self.now)
            target = self.core.cycle(self.now)
            self.sent.append(target)
            if target is not None:
                self.position = target.copy()

    def fall_silent(self):
        self.silent = True

    def tilt(self):
        self.orientation = np.array([math.sin(0.7), 0.0, 0.0, math.cos(0.7)])

    def refuse(self):
        self.core.following.refusal = "a damp must come first"

    def follow_another(self):
        self.core.following.owner = ("/other ab12", False)

    def follow_nobody(self):
        self.core.following.owner = ("", False)

    def walk(self):
        self.run(0.1)
        self.core.stand_up(self.now)
        self.run(1.2)
        self.core.walk()
        self.run(0.1)
        assert self.core.mode is Mode.WALKING
        return self


@pytest.fixture
def make_bench(robot, model):
    def make_bench(policy=model, rate=50.0):
        return Bench(robot, policy, rate)

    return make_bench


@pytest.fixture
def bench(make_bench):
    return make_bench()
