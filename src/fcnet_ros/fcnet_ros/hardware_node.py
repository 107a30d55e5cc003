"""The node of a robot, real or simulated: a hardware interface behind topics and services, as a managed node.

Configuring connects: from then on the robot is damped and its states are published. While active the joints follow
joint_trajectory.
"""

from __future__ import annotations

import gc
import threading
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial, wraps

from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger

from fcnet_ros.hardware import (
    ERROR,
    OK,
    WARN,
    Event,
    HardwareInterface,
    HardwareLoop,
    RefusedRequestError,
    SensorReading,
)
from fcnet_ros.health import PERIOD, SLOW, HealthPublisher, Rate, milliseconds
from fcnet_ros.parameters import declare_parameters, parameter, read_parameters
from fcnet_ros.program import run_program, spin
from fcnet_ros.recorder_gate import CHECK_PERIOD, DESCRIPTION, LONGEST_TIMEOUT, RecorderGate
from fcnet_ros.state import OdomPublisher, StatePublisher
from fcnet_ros.targets import TargetReceiver, read_gains
from fcnet_ros.topics import IMU, JOINT_GAINS, JOINT_STATES, ODOM, ROBOT_FAULT, TARGET_REFUSAL

REFUSAL_PERIOD = 2.0  # [s] between two warnings about commands that are not followed
SUCCESS, FAILURE = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE
UNCONFIGURED = "the bridge is not configured and moves nothing; configure it, or start it with auto_start"
STILL_STOPPED = "a stop is not lifted like this: remove its cause, then call ~/reset"

Transition = Callable[["HardwareNode", LifecycleState], TransitionCallbackReturn]


@dataclass(frozen=True)
class HardwareParameters:
    """Of every hardware."""

    auto_start: bool = parameter(
        False, "configure and activate without being asked; the joints stay damped until targets come"
    )
    recorder_timeout: float = parameter(0.0, DESCRIPTION, (0.0, LONGEST_TIMEOUT))


def _logs_errors(transition: Transition) -> Transition:
    """Let an exception in a transition be logged and be FAILURE; rclpy drops it."""

    @wraps(transition)
    def guarded(node: HardwareNode, state: LifecycleState) -> TransitionCallbackReturn:
        try:
            return transition(node, state)
        except Exception:  # noqa: BLE001 whatever it is, it is logged
            node.get_logger().fatal(f"{transition.__name__} has failed by an error\n{traceback.format_exc()}")
            return FAILURE

    return guarded


class HardwareNode(LifecycleNode):
    """The node of one robot. `ended`: it cannot or need not go on; `failed`: because of an error."""

    def __init__(self, name: str, hardware: HardwareInterface) -> None:
        super().__init__(name)
        declare_parameters(self, hardware.parameters)
        self.failed = False
        self._hardware = hardware
        self._loop: HardwareLoop | None = None
        self._gate: RecorderGate | None = None
        self._configured = ExitStack()  # what is undone, the latest first, when the robot is left
        self._published = {topic.name: "" for topic in (ROBOT_FAULT, TARGET_REFUSAL)}
        self._gains = "of the robot file"
        self._refused = 0
        self._health = HealthPublisher(self, hardware.part)
        self._text_publishers = {topic.name: topic.publisher(self) for topic in (ROBOT_FAULT, TARGET_REFUSAL)}
        self._changed = self.create_guard_condition(self._report)
        for service, request in hardware.requests().items():
            self.create_service(Trigger, f"~/{service}", partial(self._grant, request))
        if hardware.has_emergency_stop:
            self.create_service(SetBool, "~/emergency_stop", self._stop)

    @property
    def ended(self) -> bool:
        """Whether there is nothing left to do."""
        return self.failed or self._hardware.closed_by_user

    @_logs_errors
    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Connect to the robot; FAILURE, with a sentence in the log, when that cannot be."""
        try:
            with ExitStack() as configured:
                self._configure(configured)
                self._configured = configured.pop_all()
        except (ValueError, OSError) as error:
            self.get_logger().error(" ".join(str(error).split()))  # YAML's errors have several lines
            return FAILURE
        return SUCCESS

    @_logs_errors
    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Let the joints follow targets."""
        self._hardware.activate()
        return SUCCESS

    @_logs_errors
    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Damp the joints; states go on."""
        self._hardware.deactivate()
        return SUCCESS

    @_logs_errors
    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Leave the robot, damped."""
        self.leave_robot()
        return SUCCESS

    @_logs_errors
    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Leave the robot for good, damped."""
        self.leave_robot()
        return SUCCESS

    def start(self) -> bool:
        """Configure and activate; return whether that succeeded."""
        return self.trigger_configure() == SUCCESS and self.trigger_activate() == SUCCESS

    def leave_robot(self) -> None:
        """Damp the robot, end the loop and close the connection, if there is one."""
        self._configured.close()

    def _configure(self, configured: ExitStack) -> None:
        hardware = self._hardware
        parameters = read_parameters(self, hardware.parameters)
        configured.callback(hardware.close)
        hardware.configure(self, parameters)
        targets, self._states = TargetReceiver(self), StatePublisher(self)
        self._odom = OdomPublisher(self) if hardware.has_trunk_pose else None
        for part in (targets, self._states, self._odom):
            if part is not None:
                configured.callback(part.destroy, self)
        if hardware.takes_gains:
            configured.callback(self.destroy_subscription, JOINT_GAINS.subscribe(self, self._take_gains))
        recorded = [JOINT_STATES.name, IMU.name, *([ODOM.name] if self._odom else [])]
        self._gate = gate = self._gate or RecorderGate(self, recorded, parameters.recorder_timeout)
        self._text_publishers[ROBOT_FAULT.name].publish(String(data=""))
        self._cycle_rate, self._state_rate, self._misses = Rate(), Rate(), 0
        configured.callback(self.destroy_timer, self.create_timer(PERIOD, self._report_health))
        self._gate_timer = self.create_timer(CHECK_PERIOD, self._check_recorder)
        configured.callback(self.destroy_timer, self._gate_timer)
        gc.collect()
        gc.freeze()  # what lives now lives on: later collections need not look at it and stay short
        self._loop = HardwareLoop(
            hardware,
            targets.take,
            self._publish,
            self._changed.trigger,
            lambda: hardware.can_wait and not gate.is_open,
        )
        configured.callback(self._end_loop, self._loop)
        self._loop.start()

    def _end_loop(self, loop: HardwareLoop) -> None:
        loop.stop()
        self._report()
        self._loop = None

    def _check_recorder(self) -> None:
        if self._gate is not None and self._gate.check():
            self._gate_timer.cancel()

    def _publish(self, reading: SensorReading) -> None:
        """Publish a state; none while a recorder is awaited: a robot without states is not moved."""
        if self._gate is None or not self._gate.is_open:
            return
        stamp = self.get_clock().now().to_msg()
        if self._odom is not None and (pose := self._hardware.trunk_pose()) is not None:
            self._odom.publish(pose, stamp)
        self._states.publish(reading, stamp)

    def _take_gains(self, message: String) -> None:
        try:
            problem = self._hardware.set_gains(*read_gains(message.data))
        except ValueError as error:
            self._hardware.set_gains(float("nan"), float("nan"))  # refused: no targets without the gains meant for them
            problem = str(error)
        self._gains = f"refused: {problem}" if problem else "as offered on joint_gains"
        if problem:
            self.get_logger().error(f"gains refused: {problem}")

    def _grant(
        self, request: Callable[[], str], _request: Trigger.Request, response: Trigger.Response
    ) -> Trigger.Response:
        if self._loop is None:
            response.message = UNCONFIGURED
            return response
        try:
            response.message, response.success = request(), True
        except (RefusedRequestError, ValueError) as refusal:
            response.message = str(refusal)
        self.get_logger().info(response.message)
        return response

    def _stop(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        if self._loop is None:
            response.message = UNCONFIGURED
        elif not request.data:
            response.message = STILL_STOPPED
        else:
            self._hardware.emergency_stop("requested by ~/emergency_stop")
            response.success, response.message = True, "stopped: the joints are damped until ~/reset"
        return response

    def _report(self) -> None:
        """Log and publish what has happened; called when the loop or the hardware has seen something new."""
        if self._loop is None:
            return
        while self._loop.warnings:
            self._log(Event(WARN, self._loop.warnings.pop()))
        for event in self._hardware.take_events():
            self._log(event)
        error = self._loop.error and f"the loop to the robot has ended by an error; it is damped\n{self._loop.error}"
        if (error := error or self._hardware.error) and not self.failed:
            self.failed = True
            self.get_logger().fatal(error)
        texts = {ROBOT_FAULT.name: self._hardware.fault, TARGET_REFUSAL.name: self._hardware.target_refusal}
        for topic, text in texts.items():
            if text != self._published[topic]:
                self._published[topic] = text
                self._text_publishers[topic].publish(String(data=text))

    def _log(self, event: Event) -> None:
        """Log an event; rclpy refuses another level at the same line."""
        if event.level == ERROR:
            self.get_logger().error(event.sentence)
        elif event.level == WARN:
            self.get_logger().warning(event.sentence)
        else:
            self.get_logger().info(event.sentence)

    def _report_health(self) -> None:
        if self._loop is None:
            return
        loop, statistics = self._loop, self._loop.statistics
        status = self._hardware.status()
        self._report()
        if loop.refused != self._refused:
            self._refused = loop.refused
            self.get_logger().warning(loop.refusal, throttle_duration_sec=REFUSAL_PERIOD)
        rate, wanted = self._cycle_rate.measure(statistics.cycles), 1.0 / self._hardware.period
        missed, self._misses = statistics.misses - self._misses, statistics.misses
        values = {
            "io_rate_hz": f"{rate:.2f}",
            "io_wanted_rate_hz": f"{wanted:g}",
            "io_cycles": str(statistics.cycles),
            "io_misses": str(statistics.misses),
            **milliseconds("io_period", statistics.period.quantiles()),
            **milliseconds("io_work", statistics.work.quantiles()),
            "state_rate_hz": f"{self._state_rate.measure(statistics.states):.2f}",
            "commands_refused": str(loop.refused),
            **({"gains": self._gains} if self._hardware.takes_gains else {}),
            **status.values,
        }
        level, sentence = status.level, status.sentence
        if level == OK and rate < SLOW * wanted:
            level, sentence = WARN, f"slow: {rate:.0f} Hz of {wanted:g} Hz, {missed} cycles missed"
        self._health.publish(level, sentence, values)


def run_hardware(name: str, hardware: HardwareInterface, *, udp_only: bool = False) -> int:
    """Run a robot's node until a signal or an error ends it; 0 after a signal. udp_only: see run_program."""
    return run_program(name, lambda: HardwareNode(name, hardware), _run, udp_only=udp_only)


def _run(node: HardwareNode, stop: threading.Event) -> int:
    try:
        if node.get_parameter("auto_start").value and not node.start():
            return 1
        spin(node, stop, lambda: node.ended)
    finally:
        node.leave_robot()
    return 1 if node.failed else 0
