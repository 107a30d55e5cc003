"""A robot in MuJoCo behind the topics of a real one.

The main thread simulates, paced by the wall clock, and publishes; a second thread receives commands and answers
services. Whoever drives the robot must keep sending: a command older than `command_timeout` ends in damping here,
whatever became of the controller.
"""

from __future__ import annotations

import signal
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from types import FrameType

import rclpy
from builtin_interfaces.msg import Time
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from rclpy.signals import SignalHandlerOptions
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from fcnet_core.joint_command import JointCommand, RefusedCommandError, joint_command
from fcnet_core.pacer import Pacer
from fcnet_core.robot import load_robot
from quadruped_sim.live_robot import LiveRobot
from quadruped_sim.terrain import named_terrain
from sim_bridge.settings import PUSH_DIRECTIONS, declare_settings
from sim_bridge.simulation_health import SimulationHealth
from sim_bridge.state_publisher import StatePublisher
from sim_bridge.viewer import Viewer, open_viewer

VIEWER_RATE = 50.0  # [Hz]
QUIET = 2.0  # [s] between two warnings about refused commands


class MujocoBridge(Node):
    """The node: topics and services of one simulated robot."""

    def __init__(self) -> None:
        super().__init__("mujoco_bridge")
        self.settings = declare_settings(self)
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
        self._arrival = 0.0
        self._refused = 0
        # A robot in fast motion is no reason to demand commands sooner than the programs that send them can.
        self._timeout = self.settings.command_timeout * max(1.0, self.settings.real_time_factor)
        self._states = StatePublisher(self)
        self._health = SimulationHealth(self, self.settings.real_time_factor)
        self._viewer = open_viewer(self._robot.model, self._robot.data) if self.settings.viewer else None
        self.create_subscription(JointTrajectory, "joint_trajectory", self._receive, qos_profile_sensor_data)
        self.create_service(Trigger, "~/push", self._push)
        self.create_service(Trigger, "~/reset", self._reset)

    def simulate(self, stop: threading.Event, receiving: Future[None]) -> None:
        """Simulate and publish until `stop` is set or nobody receives commands any more."""
        pacer = Pacer(self.settings.period / self.settings.real_time_factor)
        turns_a_second = round(1.0 / self.settings.period)
        turn = 0
        while not stop.is_set() and not receiving.done():
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

    def _turn(self) -> None:
        with self._lock:
            self._obey()
            self._robot.advance(self.settings.substeps)
            reading, truth = self._robot.read_sensors(), self._robot.ground_truth()
        self._states.publish(reading, truth, self._stamp())

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
            self._command, self._arrival = command, self._robot.time

    def _push(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        speed = self.get_parameter("push_speed").value
        side = self.get_parameter("push_direction").value
        if side not in PUSH_DIRECTIONS:
            response.message = f"push_direction is {side!r}; choose one of {', '.join(PUSH_DIRECTIONS)}"
            return response
        with self._lock:
            direction = self._robot.push(speed, PUSH_DIRECTIONS[side])
        response.success = True
        response.message = f"pushed with {speed:g} m/s towards {direction:.2f} rad from its heading"
        return response

    def _reset(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        with self._lock:
            self._robot.reset()
            self._command, self._arrival = None, 0.0
        response.success = True
        response.message = f"the robot is {self.settings.start} where it started"
        return response

    def _stamp(self) -> Time:
        return self.get_clock().now().to_msg()

    def _draw(self, viewer: Viewer, stop: threading.Event) -> None:
        if not viewer.is_running():
            self.get_logger().info("the viewer was closed: stopping")
            stop.set()
            return
        viewer.sync()


def main() -> None:
    """Run the bridge until a signal or an error ends it."""
    stop = threading.Event()

    def stop_on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop_on_signal)
    rclpy.init(args=sys.argv, signal_handler_options=SignalHandlerOptions.NO)
    try:
        _run(stop)
    except (ValueError, InvalidParameterTypeException, InvalidParameterValueException) as error:
        sys.exit(f"mujoco_bridge: {error}")
    finally:
        rclpy.try_shutdown()


def _run(stop: threading.Event) -> None:
    bridge = MujocoBridge()
    executor = SingleThreadedExecutor()
    executor.add_node(bridge)

    def receive() -> None:
        while not stop.is_set():
            executor.spin_once(timeout_sec=0.1)

    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="receive") as threads:
        receiving = threads.submit(receive)
        try:
            bridge.simulate(stop, receiving)
        finally:
            stop.set()
    receiving.result()
    executor.shutdown()
    bridge.destroy_node()
