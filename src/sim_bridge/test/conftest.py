"""Real processes and real DDS for the closed-loop tests, each test in a ROS domain of its own."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import threading
import time
import uuid
from pathlib import Path

import numpy as np
import pytest
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import Pose, Twist
from launch.actions import ExecuteProcess, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import PathJoinSubstitution
from launch_ros.substitutions import FindPackageShare
from nav_msgs.msg import Odometry
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from sensor_msgs.msg import Imu, JointState
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from fcnet_core.model_file import PolicyModel, card_for_robot, save_model
from fcnet_core.policies.fcnet.config import FCNetConfig
from fcnet_core.robot import JOINT_NAMES, load_robot
from fcnet_core.rotation import projected_gravity, roll_pitch_yaw
from fcnet_ros.program import participant_profile

MARK = "FCNET_TEST_PROCESS"  # environment variable by which a test finds all its processes again
PATIENCE = 60.0  # [s], for a loaded machine
ASK_INTERVAL = 10.0  # [s]
DOMAINS = itertools.count(1 + os.getpid() % 90)


class Program:
    """A command started as a user would, with everything it prints."""

    def __init__(self, command: list[str], domain: int) -> None:
        self._mark = uuid.uuid4().hex
        environment = os.environ | environment_of(domain, self._mark)
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)

    @property
    def output(self) -> str:
        """All that was printed so far."""
        return "".join(self.lines)

    def wait(self, timeout: float = PATIENCE) -> int:
        """The exit code, once it ends by itself."""
        code = self.process.wait(timeout)
        self._reader.join(5.0)
        return code

    def interrupt(self) -> int:
        """Press Ctrl-C, as a terminal does: every process of the group gets it. Returns the exit code."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.wait()

    def survivors(self) -> dict[int, str]:
        """Processes that this command has started and that still live: id and command line."""
        return marked_processes(self._mark)

    def kill(self, name: str) -> None:
        """Kill the one process whose command line contains `name`, without warning."""
        (target,) = [process for process, line in self.survivors().items() if name in line]
        os.kill(target, signal.SIGKILL)

    def clean_up(self) -> None:
        """End whatever a failed test has left."""
        for process in self.survivors():
            os.kill(process, signal.SIGKILL)
        self.process.wait(10.0)
        self._reader.join(5.0)
        assert self.process.stdout is not None
        self.process.stdout.close()


def environment_of(domain: int, mark: str) -> dict[str, str]:
    """What the processes of a test have in their environment."""
    return {"ROS_DOMAIN_ID": str(domain), MARK: mark, "OMP_NUM_THREADS": "1"}


def marked_processes(mark: str) -> dict[int, str]:
    """Processes with this mark that still live: id and command line."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue  # it has ended meanwhile, or is not ours
    return found


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
        (target,) = [process for process, line in self.survivors().items() if name in line]
        os.kill(target, signal.SIGKILL)


class Client:
    """Sees and commands a robot through topics and services alone."""

    def __init__(self, domain: int) -> None:
        self._context = rclpy.Context()
        with participant_profile():
            rclpy.init(context=self._context, domain_id=domain)
            self.node = rclpy.create_node("test_client", context=self._context)
        self.mode = ""
        self.health: dict[str, str] = {}
        self.odom: Odometry | None = None
        self.imu: Imu | None = None
        self.joints: JointState | None = None
        self.target: JointTrajectory | None = None
        self.lowest_targets = np.full(12, np.inf)
        self.highest_targets = np.full(12, -np.inf)
        self._velocity = self.node.create_publisher(Twist, "cmd_vel", 10)
        self._pose = self.node.create_publisher(Pose, "cmd_pose", 10)
        self._target = self.node.create_publisher(JointTrajectory, "joint_trajectory", 1)
        self._listen()
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def _spin(self) -> None:
        while not self._closed.is_set():
            self._executor.spin_once(timeout_sec=0.1)

    def _listen(self) -> None:
        def keep(attribute):
            return lambda message: setattr(self, attribute, message)

        node, latched = self.node, QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        node.create_subscription(
            String, "controller/mode", lambda message: setattr(self, "mode", message.data), latched
        )
        for kind, topic, attribute in (
            (Odometry, "odom", "odom"),
            (Imu, "imu/data", "imu"),
            (JointState, "joint_states", "joints"),
        ):
            node.create_subscription(kind, topic, keep(attribute), qos_profile_sensor_data)
        node.create_subscription(JointTrajectory, "joint_trajectory", self._see_target, qos_profile_sensor_data)
        node.create_subscription(DiagnosticArray, "/diagnostics", self._see_health, 10)

    def _see_health(self, message: DiagnosticArray) -> None:
        for status in message.status:
            self.health |= {entry.key: entry.value for entry in status.values}

    def _see_target(self, message: JointTrajectory) -> None:
        self.target = message
        if positions := message.points[0].positions:
            self.lowest_targets = np.minimum(self.lowest_targets, positions)
            self.highest_targets = np.maximum(self.highest_targets, positions)

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

    def until(self, condition, what: str, timeout: float = PATIENCE) -> None:
        """Wait until `condition()` holds."""
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, (
                f"{what}: not within {timeout:g} s (mode {self.mode!r}, fault {self.health.get('fault', '')!r})"
            )
            time.sleep(0.005)

    def until_mode(self, mode: str) -> None:
        """Wait until the controller says it is in `mode`."""
        self.until(lambda: self.mode == mode, f"mode {mode}")

    def until_states(self) -> None:
        """Wait until the robot publishes everything."""
        self.until(lambda: self.odom and self.imu and self.joints, "states of the robot")

    def drive(self, duration: float, vx: float = 0.0, yaw_rate: float = 0.0) -> None:
        """Send cmd_vel for `duration` [s]."""
        command = Twist()
        command.linear.x, command.angular.z = vx, yaw_rate
        end = time.monotonic() + duration
        while time.monotonic() < end:
            self._velocity.publish(command)
            time.sleep(0.05)

    def send_targets(self, positions, names=JOINT_NAMES, duration: float = 0.0) -> None:
        """Send joint position targets once, or every 20 ms for `duration` [s]."""
        point = JointTrajectoryPoint(positions=[float(position) for position in positions])
        end = time.monotonic() + duration
        self._target.publish(JointTrajectory(joint_names=list(names), points=[point]))
        while time.monotonic() < end:
            time.sleep(0.02)
            self._target.publish(JointTrajectory(joint_names=list(names), points=[point]))

    def answer(self, service, request, name: str):
        """Ask, again after some time: a request that is sent before the server has found this client is lost."""
        began, asked = time.monotonic(), []

        def is_answered():
            if time.monotonic() - began >= ASK_INTERVAL * len(asked):
                asked.append(service.call_async(request))
            return any(future.done() for future in asked)

        self.until(is_answered, f"answer of {name}")
        return next(future.result() for future in asked if future.done())

    def call(self, name: str, stop: bool = False):
        """Call a service (SetBool for an emergency stop, else Trigger) and return its answer."""
        kind = SetBool if stop else Trigger
        service = self.node.create_client(kind, name)
        assert service.wait_for_service(PATIENCE), f"there is no service {name}"
        request = SetBool.Request(data=True) if stop else Trigger.Request()
        answer = self.answer(service, request, name)
        self.node.destroy_client(service)
        return answer

    def close(self) -> None:
        """Leave the domain."""
        self._closed.set()
        self._thread.join()
        self._executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown(context=self._context)


@pytest.fixture
def domain():
    return 1 + next(DOMAINS) % 100


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
    client = Client(domain)
    yield client
    client.close()


@pytest.fixture
def start(domain):
    """Start commands of the `ros2` program; whatever a test leaves running is killed."""
    assert shutil.which("ros2"), (
        "there is no `ros2` on PATH; run the tests with `make test`, or in a shell after `. env.sh`"
    )
    programs: list[Program] = []

    def start(*arguments: str) -> Program:
        programs.append(Program(["ros2", *arguments], domain))
        return programs[-1]

    yield start
    for program in programs:
        program.clean_up()


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
