"""A robot, a small random policy that holds the legs near the stand pose, and real controller processes."""

import sys

import numpy as np
import pytest
from rclpy.qos import DurabilityPolicy, QoSProfile
from ros_fixtures import domain as domain
from ros_fixtures import launch as launch
from ros_fixtures import make_node as make_node
from ros_fixtures import robot as robot
from ros_fixtures import run as run
from ros_harness import IdealRobot, ros_arguments

from fcnet_core.learning.config import example_config
from fcnet_core.model_file import PolicyModel, card_for_robot, save_model
from fcnet_core.names import CONTROLLER
from fcnet_core.policies.fcnet import FCNetConfig
from fcnet_core.robot import load_robot
from fcnet_ros.topics import MODE

SHAPE = example_config(FCNetConfig, layers=2, modes=3, hidden=16, decoder_hidden=8, window=16)
LONGEST_STATE_TIMEOUT = 1.0  # [s]
EVERY_MODE = QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)


def random_model(robot, seed=0):
    rng = np.random.default_rng(seed)
    weights = {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in SHAPE.weight_shapes().items()}
    return PolicyModel(
        card=card_for_robot(robot, SHAPE),
        weights=weights,
        scales={
            "observation_mean": np.zeros(70, np.float32),
            "observation_std": np.ones(70, np.float32),
            "action_mean": robot.stand_pose.astype(np.float32),
            "action_scale": np.full(12, 0.05, np.float32),
        },
    )


@pytest.fixture(scope="session")
def model(robot):
    return random_model(robot)


@pytest.fixture(scope="session")
def model_path(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "aliengo.safetensors"
    save_model(model, path)
    return path


@pytest.fixture(scope="session")
def a1_model_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "a1.safetensors"
    save_model(random_model(load_robot("a1")), path)
    return path


@pytest.fixture(scope="module")
def start(run):
    """Start the controller, which accepts states as old as its parameters allow: a busy machine delays the bench."""
    return lambda **parameters: run(
        [
            sys.executable,
            "-m",
            "fcnet_controller.controller_node",
            *ros_arguments(**{"state_timeout": LONGEST_STATE_TIMEOUT} | parameters),
        ]
    )


class Bench(IdealRobot):
    """An ideal robot that publishes its joints in an order of its own. modes: all modes of the controller."""

    def __init__(self, domain, robot):
        self.modes = []
        super().__init__(domain, robot, "bench")
        self.subscribe(MODE.kind, MODE.of(CONTROLLER).name, lambda mode: self.modes.append(mode.data), EVERY_MODE)
        self.restore()

    def begin_again(self):
        """Lie on the belly, and drop the modes of a controller that has ended."""
        self.restore()
        self.modes.clear()
        self.mode = ""

    def restore(self):
        """Lie on the belly and publish the states of all joints."""
        self.names = sorted(self.robot.joint_names)
        self.lie()

    @property
    def damped(self):
        """Whether the newest command asks for damping."""
        point = self.trajectories[-1].points[0]
        return not point.positions and list(point.velocities) == [0.0] * 12

    def driven(self, count, vx):
        """Send cmd_vel until `count` targets have been received; return them (N, 12)."""
        self.trajectories.clear()
        self.until(lambda: self.drive(0.05, vx) or len(self.positions()) >= count, "targets")
        return self.positions()

    def positions(self):
        """Targets (N, 12) received since the trajectories were cleared."""
        points = [message.points[0] for message in list(self.trajectories)]
        return np.array([point.positions for point in points if point.positions])


@pytest.fixture(scope="module")
def bench(domain, robot):
    with Bench(domain, robot) as bench:
        yield bench
