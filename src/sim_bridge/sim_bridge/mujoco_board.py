"""A robot in MuJoCo behind a motor board, which speaks Unitree's low-level protocol.

The main thread runs the board and the physics; a second thread answers services and sets parameters. Only the ground
truth of the trunk, which no real robot has, goes over ROS.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

from rcl_interfaces.msg import SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter

from fcnet_core.arrays import Array
from fcnet_core.names import PUSH, SIMULATION, Request
from fcnet_ros.health import PERIOD as HEALTH_PERIOD
from fcnet_ros.health import HealthPublisher
from fcnet_ros.parameters import declare_fixed_parameters
from fcnet_ros.program import RecorderGate, Stop, run_program, spin_beside
from fcnet_ros.state_messages import OdomPublisher
from fcnet_ros.topics import ODOM, create_request_services
from quadruped_sim.physics.live_robot import MotorDrivenRobot
from sim_bridge.parameters import LINE, BoardParameters
from sim_bridge.simulation import Viewer, publish_terrain, push, simulated, timing
from unitree_lowlevel.codec import GENERATIONS, PERIOD
from unitree_lowlevel.fake_board.board import FakeBoard
from unitree_lowlevel.fake_board.faults import BoardFaults

CYCLES_PER_ODOM = 10  # 50 Hz


class MujocoPhysics:
    """The simulated robot behind the board, see BoardPhysics. Foot forces are in N; the vendor's unit is unknown.

    Other users of the body hold the lock.
    """

    def __init__(self, body: MotorDrivenRobot) -> None:
        self.robot = body.robot
        self.lock = threading.Lock()
        self._body = body

    def drive(self, position: Array, velocity: Array, torque: Array, stiffness: Array, damping: Array) -> None:
        with self.lock:
            self._body.drive(position, velocity, torque, stiffness, damping)

    def block(self, joint: int | None) -> None:
        self._body.block(joint)

    def advance(self, duration: float) -> None:
        with self.lock:
            self._body.advance(round(duration / self._body.time_step))

    def sense(self) -> dict[str, Array]:
        return {**vars(self._body.read_sensors()), "foot_force": self._body.foot_force()}


class MujocoBoard(Node):
    """The node: a board at a UDP address, with odom, ~/push, ~/reset and diagnostics."""

    def __init__(self) -> None:
        super().__init__("mujoco_board")
        settings = declare_fixed_parameters(self, BoardParameters)
        self._body = simulated(MotorDrivenRobot, settings, PERIOD)
        self._physics = MujocoPhysics(self._body)
        generation, address = GENERATIONS[settings.generation], (settings.address, settings.port)
        faults = BoardFaults(**{name: getattr(settings, name) for name in LINE})
        self._board = FakeBoard(generation, self._physics, address, faults=faults, seed=settings.seed)
        self._time_lost = 0.0
        self._odom, self._pose = OdomPublisher(self), self._body.ground_truth()
        publish_terrain(self, self._body.terrain, lambda: self._pose)
        self._health = HealthPublisher(self, SIMULATION)
        self._gate = RecorderGate(self, [ODOM.name], settings.recorder_timeout)
        self._viewer = Viewer(self._body) if settings.viewer else None
        push_robot = partial(push, self, BoardParameters, self._body, self._physics.lock)
        create_request_services(self, {PUSH: push_robot, Request.RESET.value: self._reset})
        self.add_on_set_parameters_callback(self._set_faults)
        host, port = self._board.address
        self.get_logger().info(f"{settings.robot}'s board, {settings.generation}, listens at {host}:{port}")

    def simulate(self, stop: Stop, spinning: Future[None]) -> None:
        """Run the board until `stop` is set or `spinning` is done."""
        self._gate.wait(stop)
        cycle = 0
        while not stop.is_set() and not spinning.done():
            self._board.cycle()
            cycle += 1
            if cycle % CYCLES_PER_ODOM == 0:
                self._pose = self._body.ground_truth()
                self._odom.publish(self._pose, self.get_clock().now().nanoseconds)
            if cycle % round(HEALTH_PERIOD / PERIOD) == 0:
                self._report()
            if self._viewer is not None and not self._viewer.draw():
                self.get_logger().info("the viewer was closed: stopping")
                break
        self._board.stop()
        if self._viewer is not None:
            self._viewer.close()

    def _report(self) -> None:
        refused = str(sum(self._board.commands.bad.values()))
        status = timing(self._board.real_time_factor(), 1.0, self._body, commands_refused=refused)
        self._health.publish(status.level, status.sentence, status.values)
        lost, self._time_lost = self._board.time_lost - self._time_lost, self._board.time_lost
        if lost > 0.0:
            self.get_logger().warning(f"the board stood still for {lost:.3f} s: this computer is overloaded")

    def _reset(self) -> str:
        with self._physics.lock:
            self._body.reset()
        return "the robot is lying where it started"

    def _set_faults(self, parameters: Sequence[Parameter]) -> SetParametersResult:
        changes = {one.name: one.value for one in parameters if one.name in LINE}
        try:
            self._board.faults = replace(self._board.faults, **changes)
        except ValueError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)


def main() -> int:
    """Run the board until a signal or an error ends it; 0 after a signal."""
    return run_program("mujoco_board", MujocoBoard, _run)


def _run(node: MujocoBoard, stop: Stop) -> int:
    spin_beside(node, stop, node.simulate)
    return 0
