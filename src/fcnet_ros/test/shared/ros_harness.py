"""The harness of tests and benchmarks with real processes and real DDS: domains, processes, a client, waiting.

Fixtures of tests are in ros_fixtures.py.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import Twist, Vector3
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.exceptions import InvalidHandle
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import QoSProfile, qos_profile_sensor_data
from rclpy.time import Time as RosTime
from sensor_msgs.msg import Imu, JointState
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from fcnet_core.names import CONTROLLER, SECOND
from fcnet_core.robot import Robot, load_robot
from fcnet_ros.program import participant_profile
from fcnet_ros.topics import CMD_VEL, DIAGNOSTICS, IMU, JOINT_STATES, JOINT_TRAJECTORY, MODE, ROBOT_FAULT

JOINTS = load_robot("aliengo").joint_names

TIMEOUT = 60.0  # [s] for whatever a loaded machine delays
REQUEST_INTERVAL = 10.0  # [s] after which a service request without a response is sent again
POLL_INTERVAL = 0.005  # [s]
COMMAND_PERIOD = 0.02  # [s]
STATE_PERIOD = 0.005  # [s]
MARK = "FCNET_TEST_PROCESS"  # environment variable that a process and all its descendants carry


def wait_until(condition: Callable[[], Any], what: str | Callable[[], str], timeout: float = TIMEOUT) -> None:
    """Return once `condition()` is true; AssertionError that names `what` was expected after `timeout` [s]."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what if isinstance(what, str) else what()}: not within {timeout:g} s")
        time.sleep(POLL_INTERVAL)


@contextmanager
def own_domain() -> Iterator[int]:
    """A ROS domain id (1 to 100) that no other user of this function on this computer has at the same time."""
    for domain in range(1, 101):
        with (Path(tempfile.gettempdir()) / f"fcnet_test_domain_{domain}").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield domain
            return
    raise RuntimeError("all of the ROS domains 1 to 100 are in use by other tests")


class Process:
    """A command in a process group of its own, in a ROS domain, with everything that it prints (stdout and stderr).

    environment: further variables. prepare: called in the new process before the command. echo: takes the lines, too.
    As a context manager it interrupts the command at the end, and kills what is left of it.
    """

    def __init__(
        self,
        command: Sequence[str],
        domain: int,
        environment: Mapping[str, str] | None = None,
        prepare: Callable[[], None] | None = None,
        echo: TextIO | None = None,
    ) -> None:
        self._mark, self._echo = uuid.uuid4().hex, echo
        variables = {"ROS_DOMAIN_ID": str(domain), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
        variables |= {"OMP_NUM_THREADS": "1", MARK: self._mark, **(environment or {})}
        self.process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | variables,
            start_new_session=True,
            preexec_fn=prepare,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_error: object) -> None:
        if self.alive:
            self.end()
        self.clean_up()

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def output(self) -> str:
        return "".join(self.lines)

    def until_printed(self, pattern: str, timeout: float = TIMEOUT) -> re.Match[str]:
        """Wait until the output matches a regular expression; AssertionError with the output where it does not."""
        found: list[re.Match[str]] = []

        def is_printed() -> bool:
            ended = not self.alive
            found.extend(re.finditer(pattern, self.output))
            assert found or not ended, f"{pattern!r} was not printed:\n{self.output}"
            return bool(found)

        wait_until(is_printed, lambda: f"{pattern!r} in this output\n{self.output}", timeout)
        return found[0]

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process group, as a terminal does with Ctrl-C."""
        os.killpg(self.process.pid, number)

    def wait(self, timeout: float = TIMEOUT) -> int:
        """Return the exit code once the command ends by itself."""
        code = self.process.wait(timeout)
        self._reader.join(5.0)
        return code

    def end(self, number: signal.Signals = signal.SIGINT, timeout: float = TIMEOUT) -> int:
        """Send a signal to the process group and return the exit code."""
        self.send(number)
        return self.wait(timeout)

    def survivors(self) -> dict[int, str]:
        """Processes that this command has started and that are still alive: process id and command line."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if f"{MARK}={self._mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                    found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue  # it has ended, or belongs to another user
        return found

    def kill(self, name: str) -> None:
        """Send SIGKILL to the one descendant whose command line contains `name`."""
        (target,) = [process for process, line in self.survivors().items() if name in line]
        os.kill(target, signal.SIGKILL)

    def clean_up(self) -> None:
        """Kill whatever is still alive and release the pipe."""
        for process in self.survivors():
            os.kill(process, signal.SIGKILL)
        self.process.wait(10.0)
        self._reader.join(5.0)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            if self._echo is not None:
                print(line, end="", flush=True, file=self._echo)


def main_command(module: str) -> list[str]:
    """Return the command that runs the main function of a Python module."""
    return [sys.executable, "-c", f"import sys, {module}; sys.exit({module}.main())"]


def ros_arguments(**parameters: object) -> list[str]:
    """Return the arguments that set a node's parameters."""
    return ["--ros-args", *(text for name, value in parameters.items() for text in ("-p", f"{name}:={value}"))]


def launch_command(file: str, **arguments: object) -> list[str]:
    """Return the command of a launch file of the suite with arguments."""
    return ["ros2", "launch", "fcnet_controller", file, *(f"{name}:={value}" for name, value in arguments.items())]


def assert_refused(program: Process, *words: str) -> None:
    """Assert that a program exits with an error of one line, which has these words."""
    assert program.wait() not in (0, None)
    assert "Traceback" not in program.output
    assert len(program.output.strip().splitlines()) == 1, program.output
    for word in words:
        assert word in program.output


def stamp_of(message: Any) -> int:
    """Return the stamp of a message with a header [ns]."""
    return int(message.header.stamp.sec) * SECOND + int(message.header.stamp.nanosec)


@contextmanager
def processes(domain: int) -> Iterator[Callable[[Sequence[str]], Process]]:
    """A function that starts commands in a domain; what is left of them is killed at the end."""
    with ExitStack() as started:

        def start(command: Sequence[str]) -> Process:
            process = Process(command, domain)
            started.callback(process.clean_up)
            return process

        yield start


class Client:
    """A node in a thread that observes and commands a robot through topics and services alone.

    newest: the last message of every topic that was subscribed with `observe`; mode: the controller's; health: all
    values of /diagnostics by key; fault: the bridge's, None before the first message.
    """

    def __init__(self, domain: int, name: str = "test_client") -> None:
        self._context = rclpy.Context()
        with participant_profile():
            rclpy.init(context=self._context, domain_id=domain)
            self.node = rclpy.create_node(name, context=self._context)
        self.newest: dict[str, Any] = {}
        self.mode = ""
        self.health: dict[str, str] = {}
        self.fault: str | None = None
        self.velocity, self.targets = CMD_VEL.publisher(self.node), JOINT_TRAJECTORY.publisher(self.node)
        MODE.of(CONTROLLER).subscribe(self.node, lambda message: setattr(self, "mode", message.data))
        ROBOT_FAULT.subscribe(self.node, lambda message: setattr(self, "fault", message.data))
        DIAGNOSTICS.subscribe(self.node, self._take_health)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def subscribe(
        self, kind: type, topic: str, take: Callable[[Any], None], quality: QoSProfile | int = qos_profile_sensor_data
    ) -> None:
        """Call `take` with every message of a topic, in the client's thread."""
        self.node.create_subscription(kind, topic, take, quality)

    def observe(self, kind: type, topic: str, quality: QoSProfile | int = qos_profile_sensor_data) -> None:
        """Keep the newest message of a topic in `newest`."""
        self.subscribe(kind, topic, lambda message: self.newest.__setitem__(topic, message), quality)

    def until(self, condition: Callable[[], Any], what: str, timeout: float = TIMEOUT) -> None:
        """Wait until `condition()` is true; the AssertionError names mode and faults."""
        wait_until(
            condition,
            lambda: f"{what} (mode {self.mode!r}, fault {self.health.get('fault', '')!r}, bridge {self.fault!r})",
            timeout,
        )

    def until_mode(self, mode: str, timeout: float = TIMEOUT) -> None:
        self.until(lambda: self.mode == mode, f"mode {mode}", timeout)

    def drive(self, duration: float, vx: float = 0.0, yaw_rate: float = 0.0) -> None:
        """Publish cmd_vel [m/s, rad/s] every 50 ms for `duration` [s]."""
        end = time.monotonic() + duration
        self.drive_until(lambda: time.monotonic() >= end, "the end of a drive", vx, yaw_rate, duration + TIMEOUT)

    def drive_until(
        self, condition: Callable[[], Any], what: str, vx: float = 0.0, yaw_rate: float = 0.0, timeout: float = TIMEOUT
    ) -> None:
        """Publish cmd_vel [m/s, rad/s] every 50 ms until `condition()` is true."""
        command = Twist(linear=Vector3(x=vx), angular=Vector3(z=yaw_rate))

        def is_done() -> Any:
            self.velocity.publish(command)
            time.sleep(0.05)
            return condition()

        self.until(is_done, what, timeout)

    def send_targets(
        self,
        positions: Sequence[float] | None,
        duration: float = 0.0,
        names: Sequence[str] = JOINTS,
        stamp: int | None = None,
    ) -> None:
        """Publish position targets [rad], or damping where None, once or every 20 ms for `duration` [s].

        stamp: [ns]; None for the time of sending.
        """
        still, end = [0.0] * len(names), time.monotonic() + duration
        fields = {"velocities": still} if positions is None else {"positions": list(map(float, positions))}
        message = JointTrajectory(joint_names=list(names), points=[JointTrajectoryPoint(**fields)])
        while True:
            now = self.node.get_clock().now()
            message.header.stamp = (now if stamp is None else RosTime(nanoseconds=stamp)).to_msg()
            self.targets.publish(message)
            if time.monotonic() >= end:
                return
            time.sleep(COMMAND_PERIOD)

    def call(self, name: str, kind: type = Trigger, **request: Any) -> Any:
        """Call a service and return its response.

        The request is repeated: DDS loses what is sent before the server has discovered this client.
        """
        service = self.node.create_client(kind, name)
        self.until(service.service_is_ready, f"service {name}")
        message = kind.Request(**request)  # type: ignore[attr-defined]
        began, sent = time.monotonic(), list[Any]()

        def has_response() -> bool:
            if time.monotonic() - began >= REQUEST_INTERVAL * len(sent):
                sent.append(service.call_async(message))
            return any(future.done() for future in sent)

        self.until(has_response, f"response of {name}")
        self.node.destroy_client(service)
        return next(future.result() for future in sent if future.done())

    def emergency_stop(self, node: str) -> Any:
        return self.call(f"{node}/emergency_stop", SetBool, data=True)

    def change_state(self, node: str, transition: str) -> bool:
        """Request a lifecycle transition, such as "configure"; return whether it succeeded."""
        number = getattr(Transition, f"TRANSITION_{transition.upper()}")
        return bool(self.call(f"{node}/change_state", ChangeState, transition=Transition(id=number)).success)

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        self._executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown(context=self._context)

    def _spin(self) -> None:
        while not self._closed.is_set():
            with suppress(InvalidHandle):  # a test has destroyed what the executor was about to wait for
                self._executor.spin_once(timeout_sec=0.1)

    def _take_health(self, message: DiagnosticArray) -> None:
        for status in message.status:
            self.health |= {entry.key: entry.value for entry in status.values}


class IdealRobot(Client):
    """A client that is also an upright robot: each joint is where its last target was. It lies at first.

    position: by name [rad]; names: joints in the order of publishing; effort [Nm]: in this order, empty if not
    measured; imu: what it publishes; silent: publishes no states. trajectories: all targets received, the oldest first.
    """

    def __init__(self, domain: int, robot: Robot, name: str = "ideal_robot") -> None:
        self.robot = robot
        self.names, self.effort = list(robot.joint_names), list[float]()
        self.trajectories: list[JointTrajectory] = []
        self.imu = Imu()
        self.imu.orientation.w = 1.0
        self.lie()
        super().__init__(domain, name)
        self._joints, self._imu = JOINT_STATES.publisher(self.node), IMU.publisher(self.node)
        self.subscribe(JointTrajectory, JOINT_TRAJECTORY.name, self._follow, 10)
        self._ended = threading.Event()
        self._publisher = threading.Thread(target=self._publish, daemon=True)
        self._publisher.start()

    def lie(self) -> None:
        self.silent = False
        self.position = dict(zip(self.robot.joint_names, self.robot.rest_pose.tolist(), strict=True))

    def stand(self) -> None:
        self.position = dict(zip(self.robot.joint_names, self.robot.stand_pose.tolist(), strict=True))

    def close(self) -> None:
        self._ended.set()
        self._publisher.join()
        super().close()

    def _follow(self, message: JointTrajectory) -> None:
        self.trajectories.append(message)
        if message.points[0].positions:
            self.position.update(zip(message.joint_names, message.points[0].positions, strict=True))

    def _publish(self) -> None:
        while not self._ended.wait(STATE_PERIOD):
            if not self.silent:
                names = list(self.names)
                positions = [self.position.get(name, 0.0) for name in names]
                self._imu.publish(self.imu)
                still = [0.0] * len(names)
                self._joints.publish(JointState(name=names, position=positions, velocity=still, effort=self.effort))
