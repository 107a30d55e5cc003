"""The node of a robot behind the hardware interface, real or simulated: its topics and services are the same for all.

Configuring the node connects: from then on the robot is damped and its states are published. While active the joints
follow joint_trajectory.
"""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
from rclpy.lifecycle import LifecycleNode

from fcnet_core.errors import FcnetError
from fcnet_ros import topics
from fcnet_ros.hardware import HardwareInterface, HardwareLoop, HardwareParameters, StateTopics
from fcnet_ros.health import ERROR, OK, PERIOD, SLOW, WARN, HealthPublisher
from fcnet_ros.local_socket import LocalTargets, socket_name
from fcnet_ros.one_publisher import LOOK_PERIOD, IdentifiedMessages, follow
from fcnet_ros.parameters import declare_parameters, read_parameters
from fcnet_ros.program import GATE_PERIOD, SUCCESS, RecorderGate, Stop, freeze, run_program, spin, transition
from fcnet_ros.targets import JointCommand, TargetValidator, read_gains, take_command

UNCONFIGURED = "the bridge is not configured and moves nothing; configure it, or start it with auto_start"


class HardwareNode(LifecycleNode):
    """The node of one robot. failed: an error has ended its loop."""

    def __init__(self, name: str, hardware: HardwareInterface) -> None:
        super().__init__(name)
        self._loop: HardwareLoop | None = None
        declare_parameters(self, hardware.parameters, is_configured=lambda: self._loop is not None)
        self.failed = False
        self._hardware = hardware
        self._gate: RecorderGate | None = None
        self._configured = ExitStack()  # undone in reverse order by leave_robot
        self._gains, self._refused = "of the robot file", 0
        self._health = HealthPublisher(self, hardware.part)
        reports = topics.ROBOT_FAULT, topics.TARGET_REFUSAL, topics.TARGET_OWNER
        self._fault, self._refusal, self._owner = (topics.LatchedText(self, report) for report in reports)
        self._changed = self.create_guard_condition(self._report)
        requests = {name: partial(self._grant, request) for name, request in hardware.requests().items()}
        stop = partial(self._grant, hardware.emergency_stop) if hardware.has_driver else None
        topics.create_request_services(self, requests, stop)

    def leave_robot(self) -> None:
        """Damp the robot, end the loop and close the connection, if configured."""
        self._configured.close()

    def _configure(self) -> None:
        """Connect to the robot; from then on it is damped."""
        with ExitStack() as configured:
            parameters = read_parameters(self, self._hardware.parameters)
            configured.callback(self._hardware.close)
            configured.enter_context(topics.temporary_entities(self))
            self._hardware.configure(self, parameters)
            states = StateTopics(self, self._hardware)
            take = self._subscribe_targets(parameters, states, configured)
            topics.publish_description(self, self._hardware.robot)
            self._gate = self._gate or RecorderGate(self, states.recorded, parameters.recorder_timeout)
            self.create_timer(PERIOD, self._report_health)
            self._gate_timer = self.create_timer(GATE_PERIOD, self._check_gate)
            self._loop = HardwareLoop(self._hardware, take, states.publish, self._changed.trigger, self._gate)
            configured.callback(self._end_loop, self._loop)
            freeze()
            self._loop.start()
            self._report()
            self._configured = configured.pop_all()

    on_configure, on_cleanup, on_shutdown = transition(_configure), transition(leave_robot), transition(leave_robot)
    on_activate = transition(lambda node: node._hardware.activate())
    on_deactivate = transition(lambda node: node._hardware.deactivate())

    def _subscribe_targets(
        self, parameters: HardwareParameters, states: StateTopics, configured: ExitStack
    ) -> Callable[[], JointCommand | None]:
        validator = TargetValidator(self._hardware.robot.joint_names, states.time)
        if parameters.targets_over == "dds":
            if self._hardware.has_driver:
                follow(self, topics.JOINT_GAINS, self._take_gains, raw=True)
            return partial(take_command, IdentifiedMessages(self, topics.JOINT_TRAJECTORY), validator)
        local = LocalTargets(socket_name(self), validator.command)
        configured.callback(local.close)
        if self._hardware.has_driver:
            topics.steady_timer(self, LOOK_PERIOD, lambda: self._take_gains(local.gains.pop()) if local.gains else None)
        return local.take

    def _check_gate(self) -> None:
        if self._gate is not None and self._gate.check():
            self._gate_timer.cancel()

    def _end_loop(self, loop: HardwareLoop) -> None:
        loop.stop()
        self._log_events(loop)
        self._loop = None
        self._fault.publish("")  # the next configuration starts without a fault
        if self._hardware.has_driver:
            self._refusal.publish(UNCONFIGURED)
        if self._hardware.target_owner is not None:
            self._owner.publish("")

    def _take_gains(self, content: bytes) -> None:
        malformed, kp, kd = "", np.array(np.nan), np.array(np.nan)  # refused: no targets are followed without gains
        try:
            kp, kd = read_gains(content, self._hardware.robot.joint_names)
        except ValueError as error:
            malformed = str(error)
        try:
            problem = self._hardware.set_gains(kp, kd)
        except FcnetError as error:  # it cannot use them now, and may use them later
            problem = str(error)
        if problem := malformed or problem:
            self.get_logger().error(f"gains refused: {problem}")
        self._gains = f"refused: {problem}" if problem else "as offered on joint_gains"

    def _grant(self, request: Callable[[], Any]) -> Any:
        if self._loop is None:
            raise FcnetError(UNCONFIGURED)
        return request()

    def _report(self) -> None:
        """Log events and publish fault, refusal and owner; called after a change in the loop or the hardware."""
        if self._loop is None:
            return
        self._log_events(self._loop)
        self._fault.publish(self._hardware.fault)
        self._refusal.publish(self._hardware.target_refusal)
        if (owner := self._hardware.target_owner) is not None:
            self._owner.publish(owner)

    def _log_events(self, loop: HardwareLoop) -> None:
        """Log events, and the error that ended the loop."""
        for event in self._hardware.take_events():
            if event.level == ERROR:  # rclpy allows one level per line of code
                self.get_logger().error(event.sentence)
            elif event.level == WARN:
                self.get_logger().warning(event.sentence)
            else:
                self.get_logger().info(event.sentence)
        error = loop.error and f"an error ended the loop to the robot; the robot is damped\n{loop.error}"
        if (error := error or self._hardware.error) and not self.failed:
            self.failed = True
            self.get_logger().fatal(error)

    def _report_health(self) -> None:
        if self._loop is None:
            return
        loop, statistics = self._loop, self._hardware.statistics or self._loop.statistics
        status = self._hardware.status()
        self._report()
        for text in (self._fault, self._refusal, self._owner):
            text.repeat()
        is_refusing, self._refused = loop.refused != self._refused, loop.refused
        if is_refusing:
            self.get_logger().warning(loop.refusal, throttle_duration_sec=topics.WARNING_PERIOD)
        (rate, missed), nominal = statistics.measure(), 1.0 / self._hardware.period
        values = {
            "io_rate_hz": f"{rate:.2f}",
            "io_wanted_rate_hz": f"{nominal:g}",
            "io_cycles": str(statistics.cycles),
            "io_misses": str(statistics.misses),
            **statistics.milliseconds(),
            "state_rate_hz": f"{loop.states.measure()[0]:.2f}",
            "commands_refused": str(loop.refused),
            **({"gains": self._gains} if self._hardware.has_driver else {}),
            **status.values,
        }
        level, sentence = status.level, status.sentence
        if level == OK and rate < SLOW * nominal:
            level, sentence = WARN, f"slow: {rate:.0f} Hz of {nominal:g} Hz, {missed} cycles missed"
        elif level == OK and is_refusing:
            level, sentence = WARN, loop.refusal
        self._health.publish(level, sentence, values)


def run_hardware(name: str, hardware: HardwareInterface) -> int:
    """Run a robot's node until a signal or an error ends it; return 0 after a signal."""
    return run_program(name, lambda: HardwareNode(name, hardware), _run, udp_only=hardware.has_driver)


def _run(node: HardwareNode, stop: Stop) -> int:
    try:
        starts = node.get_parameter("auto_start").value
        if starts and not (node.trigger_configure() == SUCCESS and node.trigger_activate() == SUCCESS):
            return 1
        spin(node, stop, lambda: node.failed or node._hardware.closed_by_user)
    finally:
        node.leave_robot()
    return 1 if node.failed else 0
