"""Real processes and real DDS for the closed-loop tests, each test in a ROS domain of its own."""

import numpy as np
import pytest
from ros_harness import Client, launch_command, own_domain, processes, stamp_of
from trajectory_msgs.msg import JointTrajectory

from fcnet_core.rotation import projected_gravity, roll_pitch_yaw
from fcnet_ros.topics import IMU, JOINT_STATES, JOINT_TRAJECTORY, ODOM


def newest_of(topic):
    """The newest message of a topic."""
    return property(lambda client: client.newest.get(topic.name))


class RobotClient(Client):
    """Observes a simulated robot, too: its ground truth, IMU and joint states, and the targets that it gets."""

    odom, imu, joints, target = map(newest_of, (ODOM, IMU, JOINT_STATES, JOINT_TRAJECTORY))

    def __init__(self, domain: int) -> None:
        super().__init__(domain)
        self.sent: list[list[float]] = []  # position targets [rad]
        for topic in (ODOM, IMU, JOINT_STATES):
            self.observe(topic.kind, topic.name)
        self.subscribe(JointTrajectory, JOINT_TRAJECTORY.name, self._take_targets)

    def _take_targets(self, message: JointTrajectory) -> None:
        self.newest[JOINT_TRAJECTORY.name] = message
        if positions := message.points[0].positions:
            self.sent.append(positions)

    @property
    def stamp(self) -> int:
        """The newest joint states' stamp [ns]."""
        return stamp_of(self.joints)

    @property
    def position(self) -> np.ndarray:
        """Where the trunk is [m]."""
        place = self.odom.pose.pose.position
        return np.array([place.x, place.y, place.z])

    @property
    def yaw(self) -> float:
        """The heading [rad]."""
        return float(roll_pitch_yaw(self._orientation())[2])

    @property
    def upright(self) -> bool:
        """Whether the trunk is tilted by less than 60 degrees."""
        return bool(projected_gravity(self._orientation())[2] < -0.5)

    @property
    def speed(self) -> float:
        """Horizontal speed [m/s]."""
        velocity = self.odom.twist.twist.linear
        return float(np.hypot(velocity.x, velocity.y))

    def _orientation(self) -> list[float]:
        turned = self.odom.pose.pose.orientation
        return [turned.x, turned.y, turned.z, turned.w]

    def until_states(self) -> None:
        """Wait until the robot publishes everything."""
        self.until(lambda: self.odom and self.imu and self.joints, "states of the robot")


@pytest.fixture
def domain():
    with own_domain() as domain:
        yield domain


@pytest.fixture
def client(domain):
    with RobotClient(domain) as client:
        yield client


@pytest.fixture
def start(domain):
    """Start commands of the `ros2` program; whatever a test leaves running is killed."""
    with processes(domain) as run:
        yield lambda *arguments: run(["ros2", *arguments])


@pytest.fixture
def launch(start):
    """Start a launch file of the suite, as a user does."""
    return lambda file, **arguments: start(*launch_command(file, **arguments)[1:])
