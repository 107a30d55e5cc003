"""A robot that follows its targets, a client that observes it, and the programs under test as processes."""

import sys
import threading
import time

import pytest
from geometry_msgs.msg import Twist
from rclpy.qos import qos_profile_sensor_data
from ros_fixtures import client as client
from ros_fixtures import domain as domain
from ros_harness import processes, ros_arguments
from sensor_msgs.msg import Imu, JointState
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory

from fcnet_core.robot import JOINT_NAMES, load_robot

STATE_PERIOD = 0.005  # [s]


@pytest.fixture(scope="session")
def robot():
    return load_robot("aliengo")


@pytest.fixture(scope="module")
def start(domain):
    """Start a module as a program with parameters; whatever a test leaves running is killed."""
    with processes(domain) as run:
        yield lambda module, **parameters: run([sys.executable, "-m", module, *ros_arguments(**parameters)])


class IdealRobot:
    """Publishes the state of a robot whose joints are where the last targets were; lies at first."""

    def __init__(self, client, robot):
        self._lying = dict(zip(JOINT_NAMES, robot.lie_pose.tolist(), strict=True))
        self._standing = dict(zip(JOINT_NAMES, robot.stand_pose.tolist(), strict=True))
        self.effort = []  # of the joints [Nm]; empty where it measures none
        self.lie()
        self._joints = client.node.create_publisher(JointState, "joint_states", qos_profile_sensor_data)
        self._imu = client.node.create_publisher(Imu, "imu/data", qos_profile_sensor_data)
        client.subscribe(JointTrajectory, "joint_trajectory", self._follow)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._publish)
        self._thread.start()

    def lie(self):
        self.silent, self.position = False, dict(self._lying)

    def stand(self):
        self.position = dict(self._standing)

    def _follow(self, message):
        if message.points[0].positions:
            self.position = dict(zip(message.joint_names, message.points[0].positions, strict=True))

    def _publish(self):
        imu = Imu()
        imu.orientation.w = 1.0
        while not self._closed.wait(STATE_PERIOD):
            if not self.silent:
                names, positions = zip(*self.position.items(), strict=True)
                self._imu.publish(imu)
                still = [0.0] * len(names)
                self._joints.publish(JointState(name=names, position=positions, velocity=still, effort=self.effort))

    def close(self):
        self._closed.set()
        self._thread.join()


@pytest.fixture(scope="module")
def ideal_robot(client, robot):
    ideal = IdealRobot(client, robot)
    yield ideal
    ideal.close()


@pytest.fixture
def assert_refused(start):
    """That a program with these parameters ends with code 2 and one sentence, which has these words."""

    def assert_refused(module, words, **parameters):
        program = start(module, **parameters)
        assert program.wait() == 2
        assert words in program.output
        assert "Traceback" not in program.output

    return assert_refused


@pytest.fixture(scope="session")
def is_silent():
    """Whether no message is added to a list for a while."""

    def is_silent(messages):
        before = len(messages)
        time.sleep(0.5)
        return len(messages) == before

    return is_silent


@pytest.fixture
def velocities(client):
    """Forward velocities that the monitor publishes [m/s]."""
    received = []
    subscription = client.node.create_subscription(Twist, "monitor/cmd_vel", lambda m: received.append(m.linear.x), 10)
    yield received
    client.node.destroy_subscription(subscription)


class Services:
    """Services of nodes that do nothing. requests: names of those that were called; refused: names to refuse."""

    def __init__(self, client):
        self.requests, self.refused = [], []
        self._node = client.node
        self._services = []

    def add(self, *names):
        for name in names:
            kind = SetBool if name.endswith("emergency_stop") else Trigger
            self._services.append(self._node.create_service(kind, name, lambda _, r, name=name: self._respond(name, r)))

    def _respond(self, name, response):
        self.requests.append(name)
        response.success, response.message = name not in self.refused, f"done: {name}"
        return response

    def close(self):
        for service in self._services:
            self._node.destroy_service(service)


@pytest.fixture(scope="module")
def module_services(client):
    services = Services(client)
    yield services
    services.close()


@pytest.fixture
def services(client):
    services = Services(client)
    yield services
    services.close()
