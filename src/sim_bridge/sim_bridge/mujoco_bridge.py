"""A robot in MuJoCo behind the topics of a real one.

The main thread simulates, paced by the wall clock, and publishes; a second thread receives commands and answers
services. Whoever drives the robot must keep sending: a command older than `command_timeout` ends in damping here,
whatever became of the controller.
"""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

import mujoco
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from fcnet_core.control_clock import Pacer
from fcnet_core.limiter import JointCommand, RefusedCommandError, joint_command
from fcnet_core.robot import load_robot
from fcnet_ros.parameters import ParameterError, declare_fixed_parameters, parameter, read_parameters
from fcnet_ros.program import run_program, spin_beside
from fcnet_ros.recorder_gate import DESCRIPTION, LONGEST_TIMEOUT, RecorderGate
from quadruped_sim.live_robot import LiveRobot
from quadruped_sim.terrain import named_terrain
from sim_bridge.publishers import OdomPublisher, StatePublisher

# The parameters of the MuJoCo bridge, declared with description and range.

START_POSES = ("lying", "standing")
PUSH_DIRECTIONS = {"random": None, "forward": 0.0, "left": 1.5707963, "backward": 3.1415927, "right": -1.5707963}


@dataclass(frozen=True)
class SimulationParameters:
    """Of every simulated robot."""

    robot: str = parameter("aliengo", "robot to simulate, a file in config/robots")
    terrain: str = parameter("flat", "ground to walk on, a name from quadruped_sim/terrain.py")
    sensor_noise: float = parameter(1.0, "sensor noise as a multiple of that in training", (0.0, 10.0))
    seed: int = parameter(0, "seed of everything that is random", (0, 2**31 - 1))
    viewer: bool = parameter(False, "open MuJoCo's window; needs a display")
    recorder_timeout: float = parameter(0.0, DESCRIPTION, (0.0, LONGEST_TIMEOUT))
    push_speed: float = parameter(0.5, "change of the trunk's velocity by ~/push [m/s]", (0.0, 3.0), changeable=True)
    push_direction: str = parameter("random", "where ~/push pushes", choices=tuple(PUSH_DIRECTIONS), changeable=True)


@dataclass(frozen=True)
class Settings(SimulationParameters):
    """What the bridge simulates and how fast."""

    start: str = parameter("lying", "pose after start and reset", choices=START_POSES)
    real_time_factor: float = parameter(1.0, "simulated seconds per second", (0.05, 20.0))
    timestep: float = parameter(0.004, "time step of the physics [s]", (0.0005, 0.005))
    publish_rate: float = parameter(250.0, "states per simulated second [Hz]", (50.0, 1000.0))
    command_timeout: float = parameter(
        0.1, "age [s] beyond which a command is dropped and joints are damped", (0.01, 5.0)
    )
    patience: float = parameter(0.0, "real time [s] for which the simulation waits for a late controller", (0.0, 10.0))

    def __post_init__(self) -> None:
        """Check that publications fall on time steps."""
        if self.substeps < 1 or abs(self.period * self.publish_rate - 1.0) > 1e-6:
            raise ParameterError(
                f"publish_rate {self.publish_rate:g} Hz does not fit the timestep of {self.timestep:g} s; "
                f"choose a rate whose period is a multiple of it, such as {0.5 / self.timestep:g} Hz"
            )

    @property
    def substeps(self) -> int:
        """Time steps between two publications."""
        return round(1.0 / (self.publish_rate * self.timestep))

    @property
    def period(self) -> float:
        """Simulated seconds between two publications."""
        return self.substeps * self.timestep


# The services with which a simulated robot is pushed and put back.


class Movable(Protocol):
    """A robot that can be pushed and put back; both may be called from any thread."""

    def push(self, speed: float, direction: float | None) -> float:
        """See LiveRobot.push."""
        ...

    def reset(self) -> None:
        """See LiveRobot.reset."""
        ...


class RobotServices:
    """~/push, with the parameters push_speed and push_direction, and ~/reset of the node with this robot."""

    def __init__(self, node: Node, robot: Movable, start: str) -> None:
        self._node = node
        self._robot = robot
        self._start = start
        node.create_service(Trigger, "~/push", self._push)
        node.create_service(Trigger, "~/reset", self._reset)

    def _push(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        try:
            parameters = read_parameters(self._node, SimulationParameters)
        except ParameterError as error:
            response.message = str(error)
            return response
        speed = parameters.push_speed
        direction = self._robot.push(speed, PUSH_DIRECTIONS[parameters.push_direction])
        response.success = True
        response.message = f"pushed with {speed:g} m/s towards {direction:.2f} rad from its heading"
        return response

    def _reset(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self._robot.reset()
        response.success = True
        response.message = f"the robot is {self._start} where it started"
        return response


# Tells on /diagnostics whether the simulation keeps up and whether the robot is commanded.

TOLERANCE = 0.95  # of the wanted real-time factor below which the simulation is called slow


class SimulationHealth:
    """Publishes one status, `<node>: simulation`."""

    def __init__(self, node: Node, wanted: float) -> None:
        self._publisher = node.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self._name = f"{node.get_fully_qualified_name().lstrip('/')}: simulation"
        self._wanted = wanted

    def publish(self, achieved: float, damped: bool, refused: int, stamp: Time) -> None:
        """Report the real-time factor achieved, whether the joints are damped, and how many commands were refused."""
        slow = achieved < TOLERANCE * self._wanted
        status = DiagnosticStatus(
            name=self._name,
            level=DiagnosticStatus.WARN if slow else DiagnosticStatus.OK,
            message="slower than wanted" if slow else "on time",
        )
        status.values = [
            KeyValue(key="real_time_factor", value=f"{achieved:.3f}"),
            KeyValue(key="wanted_real_time_factor", value=f"{self._wanted:.3f}"),
            KeyValue(key="joints", value="damped" if damped else "following"),
            KeyValue(key="refused_commands", value=str(refused)),
        ]
        message = DiagnosticArray(status=[status])
        message.header.stamp = stamp
        self._publisher.publish(message)


# MuJoCo's own window on a running simulation.


class Viewer(Protocol):
    """A window that shows the simulation's current state."""

    def is_running(self) -> bool:
        """Whether the window is still open."""
        ...

    def sync(self) -> None:
        """Draw the current state."""
        ...

    def close(self) -> None:
        """Close the window."""
        ...


def open_viewer(model: mujoco.MjModel, data: mujoco.MjData) -> Viewer:
    """Open a window. Raises ValueError where there is no display."""
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        raise ValueError("there is no display for the viewer; leave out viewer:=true or set DISPLAY")
    import mujoco.viewer

    window: Any = mujoco.viewer.launch_passive(model, data, show_left_ui=False, show_right_ui=False)
    return window


RECORDED = ("joint_states", "imu/data", "odom")
VIEWER_RATE = 50.0  # [Hz]
QUIET = 2.0  # [s] between two warnings about refused commands
LATE = 0.5  # of the command timeout, from which on a command is late


class MujocoBridge(Node):
    """The node: topics and services of one simulated robot."""

    def __init__(self) -> None:
        super().__init__("mujoco_bridge")
        self.settings = declare_fixed_parameters(self, Settings)
        self._lock = threading.Lock()  # guards the robot, the command and its arrival
        self._robot = LiveRobot(
            load_robot(self.settings.robot),
            named_terrain(self.settings.terrain),
            timestep=self.settings.timestep,
            noise=self.settings.sensor_noise,
            start="standing" if self.settings.start == "standing" else "lying",
            seed=self.settings.seed,
        )
        self._command: JointCommand | None = None
        self._arrival = 0.0  # in simulated time
        self._received = 0.0  # on the wall clock
        self._refused = 0
        # A robot in fast motion is no reason to demand commands sooner than the programs that send them can.
        self._timeout = self.settings.command_timeout * max(1.0, self.settings.real_time_factor)
        self._states = StatePublisher(self)
        self._odom = OdomPublisher(self)
        self._health = SimulationHealth(self, self.settings.real_time_factor)
        self._viewer = open_viewer(self._robot.model, self._robot.data) if self.settings.viewer else None
        self.create_subscription(JointTrajectory, "joint_trajectory", self._receive, qos_profile_sensor_data)
        self._robot_services = RobotServices(self, self, self.settings.start)

    def simulate(self, stop: threading.Event, spinning: Future[None]) -> None:
        """Simulate and publish until `stop` is set or `spinning` is done."""
        RecorderGate(self, RECORDED, self.settings.recorder_timeout).wait(stop)
        pacer = Pacer(self.settings.period / self.settings.real_time_factor)
        turns_a_second = round(1.0 / self.settings.period)
        turn = 0
        while not stop.is_set() and not spinning.done():
            self._wait_for_command(stop)
            self._turn()
            turn += 1
            if turn % turns_a_second == 0:
                factor = pacer.measured_rate() * self.settings.period
                self._health.publish(factor, self._robot.damped, self._refused, self._stamp())
            if self._viewer is not None and turn % max(1, round(turns_a_second / VIEWER_RATE)) == 0:
                self._draw(self._viewer, stop)
            pacer.wait()
        if self._viewer is not None:
            self._viewer.close()

    def _wait_for_command(self, stop: threading.Event) -> None:
        """Let a late controller catch up: on a busy computer simulated time waits, instead of a robot that falls."""
        while self._is_late() and time.monotonic() < self._received + self.settings.patience and not stop.is_set():
            time.sleep(0.001)

    def _is_late(self) -> bool:
        moving = self._command is not None and self._command.targets is not None
        return moving and self._robot.time - self._arrival > LATE * self.settings.command_timeout

    def _turn(self) -> None:
        with self._lock:
            self._obey()
            self._robot.advance(self.settings.substeps)
            reading, truth = self._robot.read_sensors(), self._robot.ground_truth()
        stamp = self._stamp()
        self._odom.publish(truth, stamp)
        self._states.publish(reading, stamp)

    def _obey(self) -> None:
        command = self._command
        if command is not None and self._robot.time - self._arrival > self._timeout:
            self.get_logger().info(f"no command for {self.settings.command_timeout:g} s: damping the joints")
            command = self._command = None
        if command is not None and command.targets is not None:
            self._robot.follow(command.targets)
        elif not self._robot.damped and (command is not None or self._arrival > 0.0):
            self._robot.damp()

    def _receive(self, message: JointTrajectory) -> None:
        try:
            if len(message.points) != 1:
                raise RefusedCommandError(f"joint_trajectory has {len(message.points)} points; send exactly one")
            point = message.points[0]
            command = joint_command(message.joint_names, point.positions, point.velocities, point.effort)
        except RefusedCommandError as refusal:
            self._refused += 1
            self.get_logger().warning(f"command refused: {refusal}", throttle_duration_sec=QUIET)
            return
        with self._lock:
            self._command, self._arrival, self._received = command, self._robot.time, time.monotonic()

    def push(self, speed: float, direction: float | None) -> float:
        """See LiveRobot.push."""
        with self._lock:
            return self._robot.push(speed, direction)

    def reset(self) -> None:
        """Put the robot back where it started and forget its command."""
        with self._lock:
            self._robot.reset()
            self._command, self._arrival = None, 0.0

    def _stamp(self) -> Time:
        return self.get_clock().now().to_msg()

    def _draw(self, viewer: Viewer, stop: threading.Event) -> None:
        if not viewer.is_running():
            self.get_logger().info("the viewer was closed: stopping")
            stop.set()
            return
        viewer.sync()


def main() -> int:
    """Run the bridge until a signal or an error ends it; 0 after a signal."""
    return run_program("mujoco_bridge", MujocoBridge, _run)


def _run(node: MujocoBridge, stop: threading.Event) -> int:
    spin_beside(node, stop, node.simulate)
    return 0
