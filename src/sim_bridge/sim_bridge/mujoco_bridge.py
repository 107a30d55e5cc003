"""A robot in MuJoCo behind the topics of a real one.

The main thread simulates, paced by the wall clock, and publishes; a second thread receives commands and answers
services. Whoever drives the robot must keep sending: a command older than `command_timeout` ends in damping here,
whatever became of the controller.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future

from builtin_interfaces.msg import Time
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from trajectory_msgs.msg import JointTrajectory

from fcnet_core.joint_command import JointCommand, RefusedCommandError, joint_command
from fcnet_core.pacer import Pacer
from fcnet_core.robot import load_robot
from fcnet_ros.program import run_program, spin_beside
from fcnet_ros.recorder_gate import RecorderGate
from quadruped_sim.live_robot import LiveRobot
from quadruped_sim.terrain import named_terrain
from sim_bridge.odom_publisher import OdomPublisher
from sim_bridge.robot_services import RobotServices
from sim_bridge.settings import declare_settings
from sim_bridge.simulation_health import SimulationHealth
from sim_bridge.state_publisher import StatePublisher
from sim_bridge.viewer import Viewer, open_viewer

RECORDED = ("joint_states", "imu/data", "odom")
VIEWER_RATE = 50.0  # [Hz]
QUIET = 2.0  # [s] between two warnings about refused commands
LATE = 0.5  # of the command timeout, from which on a command is late


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
