"""Real processes and real DDS for the closed-loop tests, each test in a ROS domain of its own."""

from __future__ import annotations

import os
import shutil
import signal
import time
import uuid
from pathlib import Path

import numpy as np
import pytest
from launch.actions import ExecuteProcess, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import PathJoinSubstitution
from launch_ros.substitutions import FindPackageShare
from nav_msgs.msg import Odometry
from ros_harness import Client, environment_of, marked_processes, own_domain, processes
from sensor_msgs.msg import Imu, JointState
from trajectory_msgs.msg import JointTrajectory

from fcnet_core.model_file import PolicyModel, card_for_robot, save_model
from fcnet_core.policies.fcnet import FCNetConfig
from fcnet_core.robot import load_robot
from fcnet_core.rotation import projected_gravity, roll_pitch_yaw
from fcnet_ros.topics import IMU, JOINT_STATES, JOINT_TRAJECTORY, ODOM


class Launches:
    """Describes launches of this suite's launch files, for launch_pytest."""

    def __init__(self, domain: int) -> None:
        self._mark = uuid.uuid4().hex
        self.environment = environment_of(domain, self._mark)

    def included(self, file: str, **arguments) -> IncludeLaunchDescription:
        """A launch file inside the test's launch."""
        path = PathJoinSubstitution([FindPackageShare("fcnet_controller"), "launch", file])
        given = [(name, str(value)) for name, value in arguments.items()]
        return IncludeLaunchDescription(PythonLaunchDescriptionSource(path), launch_arguments=given)

    def command(self, file: str, **arguments) -> ExecuteProcess:
        """The launch file as a user starts it, with its output and exit code."""
        return ExecuteProcess(
            cmd=["ros2", "launch", "fcnet_controller", file, *(f"{name}:={text}" for name, text in arguments.items())],
            name="launch",
            output="screen",
            cached_output=True,
            additional_env=self.environment,
        )

    def survivors(self) -> dict[int, str]:
        """Processes that still live: id and command line."""
        return marked_processes(self._mark)

    def kill(self, name: str) -> None:
        """Kill the one process whose command line contains `name`, without warning."""
        os.kill(self._process(name), signal.SIGKILL)

    def hold(self, name: str, duration: float) -> None:
        """Stop the one process whose command line contains `name` for `duration` [s]."""
        os.kill(self._process(name), signal.SIGSTOP)
        time.sleep(duration)
        os.kill(self._process(name), signal.SIGCONT)

    def _process(self, name: str) -> int:
        (target,) = [process for process, line in self.survivors().items() if name in line]
        return target


class RobotClient(Client):
    """Observes a simulated robot, too."""

    def __init__(self, domain: int) -> None:
        super().__init__(domain)
        self.lowest_targets = np.full(12, np.inf)
        self.highest_targets = np.full(12, -np.inf)
        for topic in (ODOM, IMU, JOINT_STATES):
            self.observe(topic.kind, topic.name)
        self.subscribe(JointTrajectory, JOINT_TRAJECTORY.name, self._take_targets)

    def _take_targets(self, message: JointTrajectory) -> None:
        self.newest[JOINT_TRAJECTORY.name] = message
        if positions := message.points[0].positions:
            self.lowest_targets = np.minimum(self.lowest_targets, positions)
            self.highest_targets = np.maximum(self.highest_targets, positions)

    @property
    def odom(self) -> Odometry | None:
        """The newest ground truth."""
        return self.newest.get(ODOM.name)

    @property
    def imu(self) -> Imu | None:
        """The newest IMU message."""
        return self.newest.get(IMU.name)

    @property
    def joints(self) -> JointState | None:
        """The newest joint states."""
        return self.newest.get(JOINT_STATES.name)

    @property
    def stamp(self) -> int:
        """The newest joint states' stamp [ns]."""
        stamp = self.joints.header.stamp
        return stamp.sec * 10**9 + stamp.nanosec

    def until_still(self) -> int:
        """Wait until states have had the same stamp [ns] for a while, and return it."""
        since, stamp = time.monotonic(), self.stamp

        def is_still() -> bool:
            nonlocal since, stamp
            if self.stamp != stamp:
                since, stamp = time.monotonic(), self.stamp
            return time.monotonic() - since > 0.3

        self.until(is_still, "time that stands still")
        return stamp

    @property
    def target(self) -> JointTrajectory | None:
        """The newest targets."""
        return self.newest.get(JOINT_TRAJECTORY.name)

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
def launches(domain, monkeypatch):
    """Describe launches in this test's domain."""
    launches = Launches(domain)
    for name, value in launches.environment.items():
        monkeypatch.setenv(name, value)
    yield launches
    for process in launches.survivors():
        os.kill(process, signal.SIGKILL)


@pytest.fixture
def client(domain):
    with RobotClient(domain) as client:
        yield client


@pytest.fixture
def start(domain):
    """Start commands of the `ros2` program; whatever a test leaves running is killed."""
    assert shutil.which("ros2"), (
        "there is no `ros2` on PATH; run the tests with `make test`, or in a shell after `. env.sh`"
    )
    with processes(domain) as run:
        yield lambda *arguments: run(["ros2", *arguments])


@pytest.fixture
def standing_policy(tmp_path):
    """A model file for the Aliengo that answers everything with the stand pose."""
    return standing_model(tmp_path, "aliengo")


def standing_model(folder: Path, name: str) -> Path:
    """A model file for the robot called `name` whose weights are all zero, so that it only stands."""
    robot, shape = load_robot(name), FCNetConfig()
    model = PolicyModel(
        card=card_for_robot(robot, shape),
        weights={key: np.zeros(size, dtype=np.float32) for key, size in shape.weight_shapes().items()},
        scales={
            "observation_mean": np.zeros(70, dtype=np.float32),
            "observation_std": np.ones(70, dtype=np.float32),
            "action_mean": robot.stand_pose.astype(np.float32),
            "action_scale": np.ones(12, dtype=np.float32),
        },
    )
    path = folder / f"{name}.safetensors"
    save_model(model, path)
    return path
