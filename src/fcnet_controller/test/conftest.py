"""A robot, a small random policy that holds the legs near the stand pose, and real controller processes."""

import sys
import threading

import numpy as np
import pytest
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from ros_fixtures import domain as domain
from ros_harness import Client, processes, ros_arguments
from sensor_msgs.msg import Imu, JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from fcnet_core.model_file import PolicyModel, card_for_robot, save_model
from fcnet_core.policies.fcnet import FCNetConfig
from fcnet_core.robot import JOINT_NAMES, load_robot

SHAPE = FCNetConfig(layers=2, modes=3, hidden=16, decoder_hidden=8, window=16)
STATE_PERIOD = 0.005  # [s]
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
def robot():
    return load_robot("aliengo")


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
def start(domain):
    """Start programs of the package; whatever a test leaves running is killed.

    The controller accepts states as old as its parameters allow: a busy machine delays the bench, which publishes them.
    """
    with processes(domain) as run:

        def start(module="controller_node", **parameters):
            if module == "controller_node":
                parameters = {"state_timeout": LONGEST_STATE_TIMEOUT} | parameters
            return run([sys.executable, "-m", f"fcnet_controller.{module}", *ros_arguments(**parameters)])

        yield start


class Bench(Client):
    """A client that is also an ideal robot: each joint is where its last target was.

    modes: all modes of the controller, trajectories: all of its targets, oldest first.
    """

    def __init__(self, domain, robot):
        self.robot = robot
        self.modes, self.trajectories = [], []
        self.restore()
        super().__init__(domain, "bench")
        self._joints = self.node.create_publisher(JointState, "joint_states", qos_profile_sensor_data)
        self._imu = self.node.create_publisher(Imu, "imu/data", qos_profile_sensor_data)
        self.subscribe(String, "controller/mode", lambda message: self.modes.append(message.data), EVERY_MODE)
        self.subscribe(JointTrajectory, "joint_trajectory", self._follow, 10)
        self._silence = threading.Event()
        self._publisher = threading.Thread(target=self._publish, daemon=True)
        self._publisher.start()

    def forget_modes(self):
        """Drop the modes of a controller that has ended."""
        self.modes.clear()
        self.mode = ""

    def restore(self):
        """A healthy robot lying on its belly; joints are published in an order of their own."""
        self.silent = False
        self.position = dict(zip(JOINT_NAMES, self.robot.lie_pose.tolist(), strict=True))
        self.velocities = dict.fromkeys(JOINT_NAMES, 0.0)
        self.names = sorted(JOINT_NAMES)

    def _follow(self, message):
        self.trajectories.append(message)
        if message.points[0].positions:
            self.position.update(zip(message.joint_names, message.points[0].positions, strict=True))

    def _publish(self):
        imu, joints = Imu(), JointState()
        imu.orientation.w = 1.0
        while not self._silence.wait(STATE_PERIOD):
            if self.silent:
                continue
            joints.name = list(self.names)
            joints.position = [self.position.get(name, 0.0) for name in self.names]
            joints.velocity = [self.velocities.get(name, 0.0) for name in self.names]
            self._imu.publish(imu)
            self._joints.publish(joints)

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

    def close(self):
        self._silence.set()
        self._publisher.join()
        super().close()


@pytest.fixture(scope="module")
def bench(domain, robot):
    bench = Bench(domain, robot)
    yield bench
    bench.close()
