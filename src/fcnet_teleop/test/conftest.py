"""A robot, a small random policy that holds the legs near the stand pose, and real controller processes."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import Twist
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from sensor_msgs.msg import Imu, JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from fcnet_core.model_file import PolicyModel, card_for_robot, save_model
from fcnet_core.policies.fcnet.config import FCNetConfig
from fcnet_core.robot import JOINT_NAMES, load_robot
from fcnet_ros.program import participant_profile

SHAPE = FCNetConfig(layers=2, modes=3, hidden=16, decoder_hidden=8, window=16)
PATIENCE = 30.0  # [s], for a loaded machine
ASK_INTERVAL = 10.0  # [s]
STATE_PERIOD = 0.005  # [s]
DOMAINS = itertools.count(os.getpid() % 90)


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
def domain():
    return 1 + next(DOMAINS) % 100


class Program:
    """A module in a process of its own."""

    def __init__(self, domain, module, **parameters):
        arguments = [text for name, value in parameters.items() for text in ("-p", f"{name}:={value}")]
        environment = os.environ | {"ROS_DOMAIN_ID": str(domain), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, "--ros-args", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment | {"OMP_NUM_THREADS": "1"},
        )

    def wait(self):
        """The exit code and everything printed, once it ends by itself."""
        output, _ = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, output

    def end(self, number=signal.SIGINT):
        """Send a signal, then as `wait`."""
        self.process.send_signal(number)
        return self.wait()

    def clean_up(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def start(domain):
    """Start programs of the package; whatever a test leaves running is killed."""
    programs = []

    def start(module="fcnet_controller.controller_node", **parameters):
        programs.append(Program(domain, module, **parameters))
        return programs[-1]

    yield start
    for program in programs:
        program.clean_up()


class Bench:
    """An ideal robot (each joint is where its last target was) and a person who drives it, in one ROS node."""

    def __init__(self, domain, robot):
        os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
        self._context = rclpy.Context()
        with participant_profile():
            rclpy.init(context=self._context, domain_id=domain)
            self.node = rclpy.create_node("bench", context=self._context)
        self.robot = robot
        self.modes, self.targets, self.health = [], [], {}
        self.restore()
        self._joints = self.node.create_publisher(JointState, "joint_states", qos_profile_sensor_data)
        self._imu = self.node.create_publisher(Imu, "imu/data", qos_profile_sensor_data)
        self.velocity = self.node.create_publisher(Twist, "cmd_vel", 1)
        latched = QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.node.create_subscription(String, "controller/mode", lambda m: self.modes.append(m.data), latched)
        self.node.create_subscription(JointTrajectory, "joint_trajectory", self._follow, 10)
        self.node.create_subscription(DiagnosticArray, "/diagnostics", self._hear, 10)
        self._closed = threading.Event()
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._spin, self._publish)]
        for thread in self._threads:
            thread.start()

    def restore(self):
        """A healthy robot lying on its belly; joints are published in an order of their own."""
        self.silent = False
        self.position = dict(zip(JOINT_NAMES, self.robot.lie_pose.tolist(), strict=True))
        self.velocities = dict.fromkeys(JOINT_NAMES, 0.0)
        self.names = sorted(JOINT_NAMES)

    def _follow(self, message):
        self.targets.append(message)
        if message.points[0].positions:
            self.position.update(zip(message.joint_names, message.points[0].positions, strict=True))

    def _hear(self, message):
        self.health = {pair.key: pair.value for pair in message.status[0].values}

    def _spin(self):
        while not self._closed.is_set():
            self._executor.spin_once(timeout_sec=0.05)

    def _publish(self):
        imu, joints = Imu(), JointState()
        imu.orientation.w = 1.0
        while not self._closed.wait(STATE_PERIOD):
            if self.silent:
                continue
            joints.name = list(self.names)
            joints.position = [self.position.get(name, 0.0) for name in self.names]
            joints.velocity = [self.velocities.get(name, 0.0) for name in self.names]
            self._imu.publish(imu)
            self._joints.publish(joints)

    @property
    def mode(self):
        return self.modes[-1] if self.modes else ""

    @property
    def damped(self):
        """Whether the newest command asks for damping."""
        point = self.targets[-1].points[0]
        return not point.positions and list(point.velocities) == [0.0] * 12

    def until(self, condition, what):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"{what}: not within {PATIENCE:g} s (mode {self.mode!r})"
            time.sleep(0.005)

    def until_mode(self, mode):
        self.until(lambda: self.mode == mode, f"mode {mode}")

    def answer(self, client, request, name):
        """Ask, again after some time: a request that is sent before the server has found this client is lost."""
        began, asked = time.monotonic(), []

        def is_answered():
            if time.monotonic() - began >= ASK_INTERVAL * len(asked):
                asked.append(client.call_async(request))
            return any(future.done() for future in asked)

        self.until(is_answered, f"answer of {name}")
        return next(future.result() for future in asked if future.done())

    def call(self, kind, name, **request):
        client = self.node.create_client(kind, name)
        self.until(client.service_is_ready, f"service {name}")
        answer = self.answer(client, kind.Request(**request), name)
        self.node.destroy_client(client)
        return answer

    def drive(self, seconds, vx):
        """Send cmd_vel for a while; return the targets of that time (N, 12)."""
        self.targets.clear()
        message = Twist()
        message.linear.x = vx
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.velocity.publish(message)
            time.sleep(0.05)
        return self.positions()

    def positions(self):
        """Targets (N, 12) received since the last drive."""
        return np.array([message.points[0].positions for message in list(self.targets) if message.points[0].positions])

    def close(self):
        self._closed.set()
        for thread in self._threads:
            thread.join()
        self._executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown(context=self._context)


@pytest.fixture(scope="module")
def bench(domain, robot):
    bench = Bench(domain, robot)
    yield bench
    bench.close()
