"""The controller as a managed (lifecycle) ROS 2 node: topics, services and parameters around a Controller."""

import contextlib
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from geometry_msgs.msg import Pose, Twist, TwistStamped
from rcl_interfaces.msg import SetParametersResult
from rclpy.lifecycle import LifecycleNode
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.serialization import serialize_message
from std_msgs.msg import String

from fcnet_controller.control_loop import ControlLoop, Pace, RealTimePace, SimulatedPace
from fcnet_controller.parameters import ControllerParameters, policy_path
from fcnet_core.control.command import CommandArbiter, CommandSource
from fcnet_core.control.controller import Controller
from fcnet_core.control.runner import JointLimiter, PolicyRunner
from fcnet_core.control.timing import request_privileges
from fcnet_core.errors import FcnetError
from fcnet_core.model_file import PolicyModel, check_robot, load_model
from fcnet_core.names import CONTROL, CONTROLLER, SECOND, STYLE_PARAMETERS, HealthKey, Mode, Request
from fcnet_core.policy import load_policy
from fcnet_core.remote import Source, load_remote_map
from fcnet_core.robot import load_robot
from fcnet_ros import program, topics
from fcnet_ros.health import ERROR, OK, PERIOD, SLOW, WARN, HealthPublisher, LoopStatistics, SimulatedTime
from fcnet_ros.local_socket import LocalSender, socket_name
from fcnet_ros.one_publisher import Company, OnePublisher, conflicts, is_own
from fcnet_ros.parameters import declare_parameters, read_parameters
from fcnet_ros.state_messages import StateBuffer, StateReceiver
from fcnet_ros.targets import TargetPublisher, gains_text

AUTO_START_PERIOD = 0.1  # [s]
INACTIVE = "the controller is not active; configure and activate it, or start it with auto_activate"


def load_controller(
    given: ControllerParameters, statistics: LoopStatistics
) -> tuple[Controller, StateBuffer, PolicyModel]:
    """Return a controller, its policy compiled and cold, the buffer of the newest state, and the model.

    Raises ValueError if robot file, model and parameters do not fit together.
    """
    robot = load_robot(given.robot)
    state = StateBuffer(robot.joint_names, given.state_timeout, given.simulated_time)
    model = load_model(policy_path(robot.name, given.policy))
    check_robot(model, robot)
    rate = given.control_rate or model.card.interface.rate
    limiter, policy = JointLimiter(robot, 1.0 / rate), load_policy(model, given.runtime)
    runner = PolicyRunner(policy, model.card.interface, limiter, partial(statistics.add, "step"))
    policy.warm_up()  # before the robot depends on it
    durations = (given.stand_up_time, given.lie_down_time, given.cmd_vel_timeout, given.state_timeout)
    controller = Controller(robot, state, runner, *durations, given.follows_targets)
    controller.commands.set_style(given.stance_width, given.foot_clearance, given.stride_frequency)
    return controller, state, model


def auto_start(controller: Controller) -> Callable[[float], bool]:
    """Return a function that requests to stand up as soon as states arrive, then to walk.

    It takes the controller's time [s], and returns whether the robot walks or is in fault: no request follows then.
    """
    stood_up = False

    def advance(now: float) -> bool:
        nonlocal stood_up
        mode = controller.mode
        if mode in (Mode.WALKING, Mode.FAULT, Mode.LYING_DOWN) or (mode is Mode.PASSIVE and stood_up):
            return True
        with contextlib.suppress(FcnetError):  # until states have come
            if mode is Mode.PASSIVE:
                controller.stand_up(now)
                stood_up = True
            elif mode is Mode.STANDING:
                controller.walk()
        return False

    return advance


def receive_commands(
    node: Node,
    commands: CommandArbiter,
    sources: Sequence[Source],
    given: ControllerParameters,
    now: Callable[[], float],
) -> list[OnePublisher]:
    """Return subscriptions that hand the velocity and pose commands of every source to `commands` when they are polled,
    and log which source takes over. sources: the most important first; now: the time [s] of `commands`.
    """
    clock, logger, controlling = node.get_clock(), node.get_logger(), ""

    def log(warning: str | None, when: float) -> None:
        nonlocal controlling
        if warning is not None:
            logger.warning(warning, throttle_duration_sec=topics.WARNING_PERIOD)
        if (source := commands.source(when)) and source != controlling:
            logger.info(f"{source} takes over from {controlling}" if controlling else f"{source} is in control")
            controlling = source

    def take_velocity(source: CommandSource, message: Any, _received: float) -> None:
        """Take a velocity; it is as old as its stamp, or as far ahead, if it has one that is not zero."""
        when, age = now(), 0.0
        if given.use_stamped_cmd_vel:
            stamp, message = message.header.stamp, message.twist  # rclpy's Time refuses negative seconds
            sent = stamp.sec * SECOND + stamp.nanosec
            age = (clock.now().nanoseconds - sent) / SECOND if sent else 0.0
        warning = source.set_velocity(message.linear.x, message.linear.y, message.angular.z, when - abs(age))
        if abs(age) > given.cmd_vel_timeout:
            off = f"{abs(age):.1f} s {'old' if age > 0.0 else 'ahead'} by its stamp"
            warning = f"the velocity of {source.name} is {off} and counts as none, the limit is "
            warning += f"{given.cmd_vel_timeout:g} s; synchronise the computers' clocks (chrony)"
        log(warning, when)

    def take_pose(source: CommandSource, message: Pose, _received: float) -> None:
        when, attitude = now(), message.orientation
        orientation = (attitude.x, attitude.y, attitude.z, attitude.w)
        log(source.set_pose(message.position.z, orientation, when), when)

    messages = []
    kind = TwistStamped if given.use_stamped_cmd_vel else Twist
    for one in sources:
        source = commands.add_source(one.name)
        velocity, pose = topics.CMD_VEL.named(one.velocity, kind), topics.CMD_POSE.named(one.pose)
        for topic, store in ((velocity, take_velocity), (pose, take_pose)):
            messages.append(OnePublisher(node, topic, partial(store, source), given.cmd_vel_timeout))
    return messages


class ControllerNode(LifecycleNode):
    """Configuring loads and checks; while active the node commands the robot.

    failed: an error has ended the control thread.
    """

    def __init__(self) -> None:
        super().__init__(CONTROLLER)
        self._controller: Controller | None = None
        self.add_on_set_parameters_callback(self._change_style)  # rclpy calls the first one last: nothing refuses then
        declare_parameters(self, ControllerParameters, is_configured=lambda: self._controller is not None)
        self._time = SimulatedTime(self)
        self.failed = False
        self._loop: ControlLoop | None = None
        self._configured, self._active = ExitStack(), ExitStack()  # what is undone, the latest first
        self._now: Callable[[], float] = time.monotonic  # the controller's time
        self._mode = topics.LatchedText(self, topics.MODE)
        self._health = HealthPublisher(self, CONTROL)
        self._changed = self.create_guard_condition(self._publish_mode)
        requests = {
            Request.STAND_UP.value: lambda: self._active_controller().stand_up(self._now()),
            Request.RECOVER.value: lambda: self._active_controller().recover(self._now()),
            Request.WALK.value: lambda: self._active_controller().walk(),
            Request.LIE_DOWN.value: lambda: self._active_controller().lie_down(),
            Request.RESET.value: lambda: self._active_controller().reset(),
        }
        topics.create_request_services(self, requests, lambda: self._active_controller().emergency_stop())

    def stop_commanding(self) -> None:
        """Damp the robot and end the control loop, if it runs."""
        self._active.close()

    def _active_controller(self) -> Controller:
        if self._controller is None or self._loop is None:
            raise FcnetError(INACTIVE)
        return self._controller

    def _configure(self) -> None:
        """Load robot and policy, and create the topics; no targets are sent before the loop starts."""
        with ExitStack() as configured:
            self._settings = read_parameters(self, ControllerParameters)
            company = Company(self, topics.JOINT_TRAJECTORY)
            configured.callback(company.close)
            self._statistics = LoopStatistics("wake", "step", "response")
            with program.interruptible():
                self._controller, self._state, self._model = load_controller(self._settings, self._statistics)
            configured.callback(setattr, self, "_controller", None)
            configured.enter_context(topics.temporary_entities(self))
            company.refuse()
            self._connect(self._controller, configured)
            self._configured = configured.pop_all()

    def _connect(self, controller: Controller, configured: ExitStack) -> None:
        local = LocalSender(socket_name(self)) if self._settings.targets_over == "local" else None
        self._publisher = TargetPublisher(self, self._model.card.interface.joints, local=local)
        receiver = StateReceiver(self, self._state, controller.stop)
        self._state.clock_problem = partial(self._time.problem, not self._settings.simulated_time)
        self._state.conflict = partial(conflicts, self, topics.JOINT_STATES, topics.IMU)
        self._rate = self._settings.control_rate or self._model.card.interface.rate  # cycles per second of its time
        kind: type[Pace] = SimulatedPace
        if not self._settings.simulated_time:
            kind, self._rate = RealTimePace, self._rate * self._settings.real_time_factor
        self._pace = kind(controller, receiver, self._statistics, 1.0 / self._rate, self._publisher)
        self._now = self._pace.now
        self._statistics.use_clock(self._now)
        sources = load_remote_map().sources
        self._pace.commands = receive_commands(self, controller.commands, sources, self._settings, self._now)
        following, identity = controller.following, self._publisher.identity

        def set_refusal(reason: String, _received: float) -> None:
            following.refusal = reason.data

        def set_owner(owner: String, _received: float) -> None:
            following.owner = owner.data, is_own(owner.data, identity)

        def set_fault(fault: String, _received: float) -> None:
            controller.set_bridge_fault(fault.data)

        self._pace.commands += [
            OnePublisher(self, topics.ROBOT_FAULT, set_fault),
            OnePublisher(self, topics.TARGET_REFUSAL, set_refusal),
            OnePublisher(self, topics.TARGET_OWNER, set_owner),
        ]
        # The gains of the policy's training; the bridge bounds them, a simulated robot keeps its own.
        at = self._model.card.interface
        message = String(data=gains_text(at.joints, at.stiffness.tolist(), at.damping.tolist()))
        topics.JOINT_GAINS.publisher(self).publish(message)
        if local is not None:
            configured.callback(local.close)
            local.send_gains(serialize_message(message))

    def _request_privileges(self) -> None:
        for refusal in request_privileges(self._settings.realtime_priority, self._settings.lock_memory):
            self.get_logger().warning(refusal)

    def _activate(self) -> None:
        """Start the control loop, in passive mode: the joints are damped."""
        assert self._controller is not None
        self._loop = loop = ControlLoop(self._pace, self._changed.trigger, self._request_privileges)
        self._active.enter_context(topics.temporary_entities(self))
        topics.steady_timer(self, PERIOD, self._publish_health)
        if self._settings.auto_start and not self._settings.auto_activate:
            is_done = auto_start(self._controller)

            def advance() -> None:
                if is_done(self._now()):
                    timer.cancel()

            timer = topics.steady_timer(self, AUTO_START_PERIOD, advance)
        program.freeze()
        self._active.callback(self._controller.make_passive)
        self._active.callback(setattr, self, "_loop", None)
        self._active.callback(loop.stop)
        loop.start()
        self._publish_mode()

    on_configure, on_activate = program.transition(_configure), program.transition(_activate)
    on_deactivate, on_shutdown = program.transition(stop_commanding), program.transition(stop_commanding)
    on_cleanup = program.transition(lambda node: node._configured.close())

    def _publish_mode(self) -> None:
        if self._controller is None:
            return
        if self._loop is not None and not self._loop.is_running:
            self.failed = True
            self.get_logger().fatal("an error has ended the control loop, see above; the joints are damped")
        mode, fault = self._controller.mode.value, self._controller.fault
        if not self._mode.publish(mode):
            return
        if fault:
            self.get_logger().error(f"fault: {fault}; the joints are damped until ~/reset")
        else:
            self.get_logger().info(f"mode: {mode}")

    def _publish_health(self) -> None:
        if self._controller is None:
            return
        controller, statistics, now = self._controller, self._statistics, self._now()
        (rate, missed), target = statistics.measure(), self._rate
        if mixed := self._pace.receiver.unidentified():
            controller.stop(mixed)
        if controller.mode is Mode.FAULT:
            level, sentence = ERROR, f"fault: {controller.fault}"
        elif problem := controller.state.problem(now) or self._start_obstacle(controller):
            level, sentence = WARN, problem
        elif missed or rate < SLOW * target:
            level, sentence = WARN, f"slow: {rate:.1f} Hz of {target:g} Hz, {missed} cycles missed"
        elif limited := controller.limited:
            level, sentence = OK, f"{controller.mode.value}, commands limited to the policy's trained range: {limited}"
        else:
            level, sentence = OK, controller.mode.value
        values = {
            HealthKey.MODE: controller.mode.value,
            HealthKey.FAULT: controller.fault,
            "commands_limited": controller.limited,
            **{name: f"{self.get_parameter(name).value:g}" for name in STYLE_PARAMETERS.values()},
            "rate_hz": f"{rate:.2f}",
            "wanted_rate_hz": f"{target:g}",
            HealthKey.CYCLES: str(statistics.cycles),
            HealthKey.LOOP_TIME: f"{now:.6f}",
            HealthKey.DEADLINE_MISSES: str(statistics.misses),
            "state_age_ms": f"{1e3 * (now - self._state.received):.2f}",
            **statistics.milliseconds(),
        }
        self._health.publish(level, sentence, values)

    def _start_obstacle(self, controller: Controller) -> str:
        """Return why a passive robot cannot stand up, though its state is usable."""
        found = controller.mode is Mode.PASSIVE and (controller.state.conflict() or controller.following.obstacle())
        return f"cannot stand up: {found}" if found else ""

    def _change_style(self, changes: list[Parameter]) -> SetParametersResult:
        if self._controller is not None:
            style = {name: self.get_parameter(name).value for name in STYLE_PARAMETERS.values()}
            style |= {change.name: change.value for change in changes if change.name in style}
            self._controller.commands.set_style(*style.values())
        return SetParametersResult(successful=True)


def main() -> int:
    """Run the controller until a signal or an error ends it; 0 after a signal, 2 for a wrong parameter."""
    sys.setswitchinterval(program.SWITCH_INTERVAL)
    return program.run_program(CONTROLLER, ControllerNode, _run)


def _run(node: ControllerNode, stop: program.Stop) -> int:
    recorded = [topic.name for topic in (topics.JOINT_TRAJECTORY, topics.JOINT_GAINS, topics.MODE, topics.POLICY_STEP)]
    try:
        if any(node.get_parameter(name).value for name in ("auto_start", "auto_activate")):
            if node.trigger_configure() != program.SUCCESS:
                return 1
            gate = program.RecorderGate(node, recorded, node.get_parameter("recorder_timeout").value)
            program.spin(node, stop, gate.check)
            if not stop.is_set() and node.trigger_activate() != program.SUCCESS:
                return 1
        program.spin(node, stop, lambda: node.failed)
    finally:
        node.stop_commanding()
    return 1 if node.failed else 0
