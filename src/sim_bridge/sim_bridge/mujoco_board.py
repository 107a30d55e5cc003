"""A robot in MuJoCo behind a motor board: it is reached through Unitree's low-level protocol alone.

The main thread is the board and the physics; a second thread answers services and sets parameters. ROS carries only
what no real robot tells: where the trunk is.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future

from rcl_interfaces.msg import SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter

from fcnet_core.robot import load_robot
from fcnet_ros.program import run_program, spin_beside
from fcnet_ros.recorder_gate import RecorderGate
from quadruped_sim.live_robot import MotorDrivenRobot
from quadruped_sim.terrain import named_terrain
from sim_bridge.board_settings import declare_board_settings, faults_after
from sim_bridge.mujoco_physics import MujocoPhysics
from sim_bridge.odom_publisher import OdomPublisher
from sim_bridge.robot_services import RobotServices
from sim_bridge.simulation_health import SimulationHealth
from sim_bridge.viewer import Viewer, open_viewer
from unitree_lowlevel.fake_board.board import PERIOD, FakeBoard

RECORDED = ("odom",)
VIEWER_RATE = 50.0  # [Hz]


class MujocoBoard(Node):
    """The node: a board at a UDP address, with odom, ~/push, ~/reset and diagnostics."""

    def __init__(self) -> None:
        super().__init__("mujoco_board")
        settings = declare_board_settings(self)
        body = MotorDrivenRobot(
            load_robot(settings.robot),
            named_terrain(settings.terrain),
            timestep=PERIOD,
            noise=settings.sensor_noise,
            seed=settings.seed,
        )
        self._physics = MujocoPhysics(body)
        self._board = FakeBoard(
            settings.generation,
            self._physics,
            (settings.address, settings.port),
            faults=settings.faults,
            free_running=settings.free_running,
            command_timeout=settings.command_timeout,
            seed=settings.seed,
        )
        self._recorder_timeout = settings.recorder_timeout
        self._time_lost = 0.0
        self._odom = OdomPublisher(self)
        self._odom_turns = max(1, round(1.0 / (settings.odom_rate * PERIOD)))
        self._health = SimulationHealth(self, wanted=1.0)
        self._robot_services = RobotServices(self, self._physics, "lying")
        self._viewer = open_viewer(body.model, body.data) if settings.viewer else None
        self.add_on_set_parameters_callback(self._set_faults)
        host, port = self._board.address
        self.get_logger().info(f"{settings.robot}'s board, {settings.generation.name}, listens at {host}:{port}")

    def simulate(self, stop: threading.Event, spinning: Future[None]) -> None:
        """Be the board until `stop` is set or `spinning` is done."""
        RecorderGate(self, RECORDED, self._recorder_timeout).wait(stop)
        turn = 0
        while not stop.is_set() and not spinning.done():
            self._board.turn()
            turn += 1
            if turn % self._odom_turns == 0:
                self._odom.publish(self._physics.ground_truth(), self.get_clock().now().to_msg())
            if turn % round(1.0 / PERIOD) == 0:
                self._report()
            if self._viewer is not None and turn % round(1.0 / (VIEWER_RATE * PERIOD)) == 0:
                self._draw(self._viewer, stop)
        self._board.stop()
        if self._viewer is not None:
            self._viewer.close()

    def _report(self) -> None:
        refused = sum(self._board.commands.bad.values())
        stamp = self.get_clock().now().to_msg()
        self._health.publish(self._board.real_time_factor(), self._physics.damped, refused, stamp)
        lost, self._time_lost = self._board.time_lost - self._time_lost, self._board.time_lost
        if lost > 0.0:
            self.get_logger().warning(f"the board stood still for {lost:.3f} s lately: this machine is busy elsewhere")

    def _set_faults(self, parameters: Sequence[Parameter]) -> SetParametersResult:
        try:
            self._board.faults = faults_after(self._board.faults, parameters)
        except ValueError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def _draw(self, viewer: Viewer, stop: threading.Event) -> None:
        if not viewer.is_running():
            self.get_logger().info("the viewer was closed: stopping")
            stop.set()
            return
        viewer.sync()


def main() -> int:
    """Run the board until a signal or an error ends it; 0 after a signal."""
    return run_program("mujoco_board", MujocoBoard, _run)


def _run(node: MujocoBoard, stop: threading.Event) -> int:
    spin_beside(node, stop, node.simulate)
    return 0
