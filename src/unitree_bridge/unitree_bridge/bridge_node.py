"""A robot's bridge as a managed (lifecycle) ROS 2 node: the loop to its motor board between topics and services.

Configuring connects: from then on the board gets damping and ROS gets states. While active the joints follow
joint_trajectory.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import TypeVar

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String

from fcnet_core.remote import load_remote_map
from fcnet_core.robot import Robot, load_robot
from fcnet_ros.parameters import declare_parameters, read_parameters
from fcnet_ros.program import run_program, spin
from fcnet_ros.recorder_gate import CHECK_PERIOD, RecorderGate
from unitree_bridge.bridge_health import BridgeHealth
from unitree_bridge.bridge_parameters import BridgeParameters
from unitree_bridge.io_loop import IoLoop, LoopSettings
from unitree_bridge.ownership import PERIOD as CLAIM_PERIOD
from unitree_bridge.ownership import RobotClaim, RobotClaimedError, RobotLock
from unitree_bridge.topics import TOPICS, GainsReceiver, MotorServices, RemotePublisher, StatePublisher, TargetReceiver
from unitree_lowlevel.codec import GENERATIONS
from unitree_lowlevel.driver import MotorDriver
from unitree_lowlevel.limiter import damping_command
from unitree_lowlevel.safety.checks import Finding
from unitree_lowlevel.transport import Transport, TransportError, make_transport
from unitree_lowlevel.udp_transport import resolve

# Transitions that fail by an error which nobody expected.

AnyNode = TypeVar("AnyNode", bound=LifecycleNode)
Transition = Callable[[AnyNode, LifecycleState], TransitionCallbackReturn]


def told_failure(transition: Transition[AnyNode]) -> Transition[AnyNode]:
    """Let an exception in a transition be logged and be FAILURE: rclpy takes it without a word."""

    @wraps(transition)
    def tell(node: AnyNode, state: LifecycleState) -> TransitionCallbackReturn:
        try:
            return transition(node, state)
        except Exception:  # noqa: BLE001 whatever it is, it is told
            node.get_logger().fatal(f"{transition.__name__} has failed by an error\n{traceback.format_exc()}")
            return TransitionCallbackReturn.FAILURE

    return tell


# Tells whoever waits for a robot that does not answer what to look at.

PATIENCE = 3.0  # [s] without an answer before that is told
QUIET = 5.0  # [s] between two sentences


class AnswerWatch:
    """Watches how long ago the robot at `target` has said something that could be read."""

    def __init__(self, target: tuple[str, int], now: float) -> None:
        self._target = target
        self._told = now - QUIET

    def check(self, now: float, received: float, last_rejection: str) -> str | None:
        """A sentence when it is time for one; received: when the newest good state came, or waiting began [s]."""
        silence = now - received
        if silence < PATIENCE or now - self._told < QUIET:
            return None
        self._told = now
        host, port = self._target
        if last_rejection:
            return f"no state from {host}:{port} for {silence:.0f} s that could be read: {last_rejection}"
        return (
            f"no answer from {host}:{port} for {silence:.0f} s: check that the robot is on, its cable, the parameters "
            "network.target and network.port, and this computer's address (as 192.168.123.162/24); still waiting"
        )


HEALTH_PERIOD = 1.0  # [s]
REFUSAL_QUIET = 2.0  # [s] between two warnings about commands that are not obeyed
WARNING = "warning: "  # how the driver's announcements of such begin
SWITCH_INTERVAL = 0.0005  # [s] that the executor's thread may keep the loop from the interpreter
SUCCESS, FAILURE = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE


class ConfigurationError(ValueError):
    """The bridge cannot be configured; one sentence says why and what to do."""


class BridgeNode(LifecycleNode):
    """The bridge of the robot called `robot`. `failed` tells that it has ended by an error."""

    def __init__(self, robot: str) -> None:
        super().__init__(f"{robot}_bridge")
        declare_parameters(self, BridgeParameters)
        self.failed = False
        self._robot_name = robot
        self._loop: IoLoop | None = None
        self._gate: RecorderGate | None = None
        self._connected = ExitStack()  # what is undone, the latest first, when the robot is left
        self._fault = self._obstacle = ""
        self._told_refused = 0
        self._health_publisher = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._fault_publisher = self.create_publisher(String, "robot_fault", latched)
        self._obstacle_publisher = self.create_publisher(String, "target_refusal", latched)
        self._changed = self.create_guard_condition(self._tell_news)
        self._motor_services = MotorServices(self, lambda: self._driver if self._loop else None)

    @told_failure
    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Connect to the robot; FAILURE, with a sentence in the log, when that cannot be."""
        try:
            with ExitStack() as connected:
                self._configure(connected)
                self._connected = connected.pop_all()
        except (ValueError, OSError, TransportError, RobotClaimedError) as error:
            self.get_logger().error(" ".join(str(error).split()))  # YAML tells its errors in several lines
            return FAILURE
        return SUCCESS

    @told_failure
    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Let the joints follow targets."""
        self._driver.activate()
        return SUCCESS

    @told_failure
    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Damp the joints; states go on."""
        self._driver.deactivate()
        return SUCCESS

    @told_failure
    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Leave the robot, damped."""
        self.leave_robot()
        return SUCCESS

    @told_failure
    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Leave the robot for good, damped."""
        self.leave_robot()
        return SUCCESS

    def leave_robot(self) -> None:
        """Damp the robot, end the loop and close the connection, if there is one."""
        self._connected.close()

    def _configure(self, connected: ExitStack) -> None:
        parameters = read_parameters(self, BridgeParameters)
        robot = self._load_robot(parameters)
        self._transport = self._connect(parameters)
        connected.callback(self._transport.close)
        self._lock_robot(parameters.address, connected)
        self._claim = RobotClaim(self)
        connected.callback(self._claim.release)
        self._claim.win()
        self._transport.receive()  # what has come meanwhile is old
        self._make_parts(parameters, robot, connected)
        self._start_loop(parameters, robot, connected)

    def _load_robot(self, parameters: BridgeParameters) -> Robot:
        robot = load_robot(parameters.robot_file or self._robot_name)
        if robot.name != self._robot_name:
            raise ConfigurationError(
                f"robot file {parameters.robot_file} is that of the {robot.name}, this is the bridge of the "
                f"{self._robot_name}; choose the other file, or start {robot.name}_bridge"
            )
        return robot

    def _connect(self, parameters: BridgeParameters) -> Transport:
        generation = GENERATIONS[parameters.generation]
        transport = make_transport(parameters.transport, generation, parameters.address, parameters.local_port)
        transport.open()
        return transport

    def _lock_robot(self, target: tuple[str, int], connected: ExitStack) -> None:
        """Keep other bridges of this computer from this robot; ROS may take seconds to tell of them."""
        lock = RobotLock()
        connected.callback(lock.release)
        if not lock.take((resolve(target[0]), target[1])):
            raise ConfigurationError(
                f"another bridge on this computer moves the robot at {target[0]}:{target[1]} already; stop it first"
            )

    def _make_parts(self, parameters: BridgeParameters, robot: Robot, connected: ExitStack) -> None:
        """The driver, and what stands between it and the topics."""
        self._driver = MotorDriver(
            robot,
            1.0 / parameters.io_rate,
            interpolation_time=parameters.interpolation_time,
            stop_chords=load_remote_map().emergency_stop,
        )
        self._gate = self._gate or RecorderGate(self, TOPICS, parameters.recorder_timeout)
        self._targets, self._states = TargetReceiver(self), StatePublisher(self, self._gate)
        self._remote, self._gains = RemotePublisher(self), GainsReceiver(self, self._driver)
        for part in (self._targets, self._states, self._remote, self._gains):
            connected.callback(part.destroy, self)

    def _start_loop(self, parameters: BridgeParameters, robot: Robot, connected: ExitStack) -> None:
        settings = LoopSettings(
            period=1.0 / parameters.io_rate,
            turns_per_state=parameters.cycles_per_state,
            realtime_priority=parameters.realtime_priority,
            lock_memory=parameters.lock_memory,
            cpu=parameters.cpu,
        )
        loop = IoLoop(
            self._transport,
            self._driver,
            self._targets,
            self._states,
            self._remote,
            damping_command(robot),
            settings,
            self._changed.trigger,
        )
        name = f"{self.get_fully_qualified_name().lstrip('/')}: motors"
        self._health = BridgeHealth(name, parameters.io_rate, loop, self._driver, self._transport, self._gains)
        self._answers = AnswerWatch(parameters.address, time.monotonic())
        self._fault_publisher.publish(String(data=""))
        for period, act in ((HEALTH_PERIOD, self._tell_health), (CLAIM_PERIOD, self._renew_claim)):
            connected.callback(self.destroy_timer, self.create_timer(period, act))
        self._gate_timer = self.create_timer(CHECK_PERIOD, self._check_recorder)
        connected.callback(self.destroy_timer, self._gate_timer)
        gc.collect()
        gc.freeze()  # what lives now lives on: later collections need not look at it and stay short
        self._loop = loop
        connected.callback(self._end_loop, loop)
        loop.start()

    def _end_loop(self, loop: IoLoop) -> None:
        loop.stop()
        self._tell_news()
        self._loop = None

    def _check_recorder(self) -> None:
        if self._gate is not None and self._gate.check():
            self._gate_timer.cancel()

    def _renew_claim(self) -> None:
        if (sentence := self._claim.renew()) and not self.failed:
            self.failed = True
            self.get_logger().fatal(f"{sentence}; this bridge leaves the robot, damped")

    def _tell_news(self) -> None:
        """Say once what has happened; called when the loop has seen something new."""
        if self._loop is None:
            return
        while self._loop.refused_privileges:
            self.get_logger().warning(self._loop.refused_privileges.pop())
        if self._loop.error and not self.failed:
            self.failed = True
            self.get_logger().fatal(
                f"the loop to the motors has ended by an error; they are damped\n{self._loop.error}"
            )
        trip = self._driver.trip
        for sentence in self._driver.take_events():
            self._log(sentence, trip)
        fault = "" if trip is None else str(trip)
        if fault != self._fault:
            self._fault = fault
            self._fault_publisher.publish(String(data=fault))
        if self._driver.target_refusal != self._obstacle:
            self._obstacle = self._driver.target_refusal
            self._obstacle_publisher.publish(String(data=self._obstacle))

    def _log(self, sentence: str, trip: Finding | None) -> None:
        if trip is not None and str(trip) in sentence:
            self.get_logger().error(sentence)
        elif sentence.startswith(WARNING):
            self.get_logger().warning(sentence.removeprefix(WARNING))
        else:
            self.get_logger().info(sentence)

    def _tell_health(self) -> None:
        if self._loop is None:
            return
        self._tell_news()
        self._tell_refusal(self._loop)
        counters, statistics, now = self._transport.counters, self._loop.statistics, time.monotonic()
        if sentence := self._answers.check(now, statistics.received, counters.last_rejection):
            self.get_logger().warning(sentence)
        message = DiagnosticArray(status=[self._health.status()])
        message.header.stamp = self.get_clock().now().to_msg()
        self._health_publisher.publish(message)

    def _tell_refusal(self, loop: IoLoop) -> None:
        if loop.refused == self._told_refused:
            return
        self._told_refused = loop.refused
        self.get_logger().warning(loop.refusal, throttle_duration_sec=REFUSAL_QUIET)


def main(robot: str) -> int:
    """Run the bridge of the robot called `robot` until a signal or an error ends it; 0 after a signal."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    return run_program(f"{robot}_bridge", lambda: BridgeNode(robot), _run, udp_only=True)


def _run(node: BridgeNode, stop: threading.Event) -> int:
    try:
        if node.get_parameter("auto_start").value and not _start(node):
            return 1
        spin(node, stop, lambda: node.failed)
    finally:
        node.leave_robot()
    return 1 if node.failed else 0


def _start(node: BridgeNode) -> bool:
    return node.trigger_configure() == SUCCESS and node.trigger_activate() == SUCCESS
