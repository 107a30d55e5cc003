"""The path from setpoints and measured states to joint targets, for every policy: live, replayed and simulated."""

import time
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array, Floats, Mask
from fcnet_core.control.command import CommandShaper
from fcnet_core.errors import FcnetError
from fcnet_core.model_file import PolicyModel
from fcnet_core.observation import (
    ROBOT_SIGNALS,
    JointTargets,
    Known,
    ObservationBuilder,
    PolicyInterface,
    RobotState,
    Signals,
)
from fcnet_core.policy import Policy, load_policy
from fcnet_core.robot import Robot, per_joint

COMPILED_FROM = 10_000  # steps; loading numba takes as long as so many steps of FCNet in ONNX Runtime
REST = 1e-3  # [m/s, rad/s, m, rad] a smaller setpoint counts as zero


class JointLimiter:
    """Clips position targets to the robot's limits, limits their rate and replaces NaN; the last stage of every target.

    batch: number of robots, the leading axis of all arrays; None for one robot without that axis. last, previous: the
    targets sent last and those sent before (..., N) [rad].
    """

    def __init__(self, robot: Robot, period: float, batch: int | None = None) -> None:
        self.robot, self.period = robot, period
        self._lower, self._upper = robot.lower, robot.upper
        self._step = robot.safety.max_target_rate * period
        self.start(robot.rest_pose if batch is None else np.tile(robot.rest_pose, (batch, 1)))

    def start(self, position: npt.ArrayLike, mask: Mask | None = None) -> None:
        """Start at joint positions (..., N) [rad], clipped to the limits; mask (batch,): these robots only."""
        start = self.within_limits(position)
        self.previous: Array = start if mask is None else np.where(mask[:, None], start, self.previous)
        self.last: Array = start if mask is None else np.where(mask[:, None], start, self.last)

    def limit(self, target: npt.ArrayLike) -> Array:
        """Return the targets (..., N) [rad] to send in this period; NaN becomes the last target."""
        requested = np.asarray(target, dtype=np.float64)
        requested = np.where(np.isnan(requested), self.last, requested)
        slewed = np.minimum(np.maximum(requested, self.last - self._step), self.last + self._step)
        self.previous, self.last = self.last, self.within_limits(slewed)
        return self.last

    def within_limits(self, target: npt.ArrayLike) -> Array:
        """Return targets (..., N) [rad] clipped to the joint limits."""
        return np.minimum(np.maximum(np.asarray(target, dtype=np.float64), self._lower), self._upper)


class ActionDecoder:
    """Turns outputs of a network (..., n) into actions: position targets (..., N) [rad] in the order of a robot's
    joints, velocity commands or numbers (..., values).

    output, choice: clipped outputs and chosen rows of the table of the last two steps, for terms of last actions.
    bounds_torque: whether `decode` needs the measured joints.
    """

    def __init__(self, interface: PolicyInterface, robot: Robot | None, lead: tuple[int, ...]) -> None:
        action = interface.action
        self.interface, self._lead, self._limit = interface, lead, action.clip
        self._pose = self._rows = None
        self._highest = self._torque = np.inf
        scale: Any = action.scale
        offset: Any = getattr(action, "offset", 0.0)
        if isinstance(action, JointTargets):
            rows = interface.rows(interface.joints if robot is None else robot.joint_names)
            if robot is not None and rows != list(range(len(robot.joint_names))):
                self._rows, self._pose = rows, np.broadcast_to(robot.stand_pose, (*lead, len(robot.stand_pose)))
            offset = interface.pose if offset is None else per_joint(offset, interface.joints, "offset")
            scale = per_joint(action.scale, interface.joints, "scale")
            self._highest, self._torque = action.clip_target, action.max_torque
        self.bounds_torque = bool(np.isfinite(self._torque))
        self._scale, self._offset, self._table = (np.array(v, np.float64) for v in (scale, offset, interface.table))
        self._is_plain = not (self._table.size or np.any(self._offset) or (self._scale != 1.0).any())
        self._is_plain &= bool(np.isinf([self._limit, self._highest, self._torque]).all()) and self._rows is None
        zero: Array = np.zeros((*lead, len(interface.table) or interface.values))
        self.output, self.choice = (zero, zero), (np.full(lead, len(self._table)),) * 2

    def reset(self, mask: Mask | None = None) -> None:
        """Forget the outputs of the robots in `mask`, or of all robots."""
        chosen = np.ones(self._lead, dtype=bool) if mask is None else mask
        newest, older = (np.where(chosen[..., None], 0.0, output) for output in self.output)
        self.output = newest, older
        first, second = (np.where(chosen, len(self._table), choice) for choice in self.choice)
        self.choice = first, second

    def decode(self, output: Floats, measured: tuple[Array, Array] | None) -> Array:
        """Return the action. measured: joint positions and velocities, which bound targets by max_torque."""
        given = output.astype(np.float64)
        if self._is_plain:
            self.output = given, self.output[0]
            return given
        if self._table.size:
            row = given.argmax(axis=-1)
            self.choice, given = (row, self.choice[0]), self._table[row]
        else:
            given = np.minimum(np.maximum(given, -self._limit), self._limit)
            self.output = given, self.output[0]
        values = self._offset + self._scale * given
        values = np.minimum(np.maximum(values, -self._highest), self._highest)
        if measured is not None and self.bounds_torque:  # kp (target - position) - kd velocity stays within max_torque
            position, velocity = measured if self._rows is None else (each[..., self._rows] for each in measured)
            kp, braking = self.interface.stiffness, self.interface.damping * velocity
            lowest, highest = ((side * self._torque + braking) / kp for side in (-1.0, 1.0))
            values = np.minimum(np.maximum(values, position + lowest), position + highest)
        if self._rows is None or self._pose is None:
            return values
        targets = self._pose.copy()
        targets[..., self._rows] = values
        return targets


class PolicyRunner:
    """setpoints -> ranges, envelope, gait clock -> terms -> policy -> action -> joint limiter -> joint targets.

    One robot, or a batch with a leading axis (...) of robots, as in the limiter, or of `batch` robots without one. The
    policy steps at the rate of its interface; in control cycles between two steps its action holds, as in training. An
    action that is no joint target needs no limiter. `policy` may be missing if only commands, observations and limits
    are used. on_step: called with the duration [s] of each step; shaper: of the commands, by default the policy's;
    provides: the names of the signals that are given to `observe`. Raises FcnetError if a term needs another signal,
    and ValueError if the limiter's period is no whole fraction of the policy's.

    What enters a step and no topic records: setpoint (..., 9), phase and walking (...) of the gait clock, and whether
    `steps` since the reset of all robots were 0 before it.
    """

    def __init__(
        self,
        policy: Policy | None,
        interface: PolicyInterface,
        limiter: JointLimiter | None = None,
        on_step: Callable[[float], None] = lambda _duration: None,
        shaper: CommandShaper | None = None,
        batch: int | None = None,
        provides: Iterable[str] = ROBOT_SIGNALS,
    ) -> None:
        period = 1.0 / interface.rate
        multiple = 1.0 if limiter is None else period / limiter.period
        if multiple < 0.5 or abs(multiple - round(multiple)) > 1e-6:
            found, rate = multiple * interface.rate, interface.rate
            raise ValueError(f"control_rate is {found:g} Hz; choose a whole multiple of the model's {rate:g} Hz")
        if interface.commands.heading_hold:
            raise FcnetError("the policy holds a heading (commands.heading_hold), which is not supported")
        robot = None if limiter is None else limiter.robot
        interface.check_signals(provides, robot.name if robot else "the task")
        if limiter is not None:
            batch = None if limiter.last.ndim == 1 else len(limiter.last)
        self._lead = () if batch is None else (batch,)
        self.interface, self.shaper = interface, shaper or CommandShaper.of(interface, batch or 1)
        self._limiter, self._policy, self._on_step = limiter, policy, on_step
        self._builder = ObservationBuilder(interface, robot.joint_names if robot else None, batch)
        self._decoder = ActionDecoder(interface, robot, self._lead)
        self._every = round(multiple)
        zero: Array = np.zeros((*self._lead, interface.values))
        self._sent = zero, zero  # without a limiter
        self._action = zero if limiter is None else limiter.last
        self._measured: tuple[Array, Array] | None = None
        self.steps = self._countdown = 0  # the countdown: control cycles for which the action still holds
        self._has_command = self._has_observed = False
        self.setpoint: Array
        self.phase: float | Array
        self.walking: bool | Mask
        self._take()

    @property
    def limiter(self) -> JointLimiter:
        """The joint limiter. Raises FcnetError if the policy does not move joints."""
        if self._limiter is None:
            raise FcnetError("the policy does not command joints; choose one with joint positions")
        return self._limiter

    @property
    def at_rest(self) -> bool:
        """Whether the setpoints are zero and the gait clock is at rest, of one robot."""
        return not self.shaper.clock.walking[0] and bool((np.abs(self.shaper.setpoint) < REST).all())

    def reset(self, mask: Mask | None = None) -> None:
        """Clear memory and commands of the robots in `mask` (batch,), or of all; bring their gait clocks to rest."""
        if self._policy is not None:
            self._policy.reset(mask)
        self.shaper.reset(mask)
        self._builder.reset(mask)
        self._decoder.reset(mask)
        chosen = True if mask is None else mask[:, None]
        newest, older = self._sent
        self._sent = np.where(chosen, 0.0, newest), np.where(chosen, 0.0, older)
        self._take()
        self._has_observed = False
        if mask is None:
            self.steps, self._countdown, self._has_command = 0, 0, False

    def take_command(self, requested: Array) -> None:
        """Move the command towards setpoints (..., 9); call once before every control cycle."""
        if self._countdown == 0 and not self._has_command:
            self.shaper.step(requested)
            self._take()
            self._has_command = True

    def repeat_command(self, setpoint: Array, phase: float | Array, walking: bool | Mask) -> None:
        """Step the policy in the next control cycle with a recorded command, instead of `take_command`."""
        self.setpoint, self.phase, self.walking, self._countdown = setpoint, phase, walking, 0

    def targets(self, signals: Signals) -> Array:
        """Return the position targets (..., N) [rad] to send in this control cycle, or the action without a limiter.

        Raises FcnetError as `act`. The next control cycle then tries the step again, with the same command.
        """
        if self._countdown == 0:
            self._action = self.act(self.observe(signals))
            self._countdown = self._every
        self._countdown -= 1
        return self.send(self._action)

    def observe(self, signals: Signals) -> Any:
        """Return what the policy sees, after `take_command`: an array (..., n), or arrays by name."""
        limiter, decoder = self._limiter, self._decoder
        sent = self._sent if limiter is None else (limiter.last, limiter.previous)
        known = Known(self.setpoint, self.phase, self.walking, sent, decoder.output, decoder.choice)
        self._has_observed = True
        if decoder.bounds_torque:
            names = "joint_position", "joint_velocity"
            position, velocity = (signals[n] if isinstance(signals, Mapping) else getattr(signals, n) for n in names)
            self._measured = position, velocity
        return self._builder.build(signals, known)

    def act(self, observation: Any) -> Array:
        """Return the policy's action for an observation: targets (..., N) [rad], which `send` limits, or values of a
        command or vector (..., values), in the order of the interface.

        Raises NonFiniteObservation, with the policy's memory unchanged, and FcnetError if the action is not finite.
        """
        assert self._policy is not None
        started = time.perf_counter()
        output = self._policy.step(observation)
        self._on_step(time.perf_counter() - started)
        if not np.isfinite(output).all():
            raise FcnetError("the policy returned a target that is not finite; check the model file")
        return self.decode(output)

    def decode(self, output: Floats) -> Array:
        """Return the action of an output (..., n), as `act`, for a policy that steps elsewhere; after `observe`."""
        self.steps += 1
        return self._decoder.decode(output, self._measured)

    def send(self, requested: Array) -> Array:
        """Return position targets (..., N) [rad] within limits and slew: the targets of this control cycle. Without a
        limiter return `requested`.
        """
        self._has_command = False
        if self._has_observed:
            self._builder.advance()
            self._has_observed = False
        if self._limiter is not None:
            return self._limiter.limit(requested)
        self._sent = requested, self._sent[0]
        return requested

    def _take(self) -> None:
        """Take setpoint and clock of the shaper, with the runner's leading axis."""
        shaper, clock = self.shaper, self.shaper.clock
        if self._lead:
            self.setpoint, self.phase, self.walking = shaper.setpoint, clock.phase, clock.walking
        else:
            self.setpoint, self.phase, self.walking = shaper.setpoint[0], clock.phase[0], clock.walking[0]


def recorded_targets(
    model: PolicyModel, robot: Robot, period: float, states: RobotState, known: Known, cold: Mask
) -> Array:
    """Return the targets (K, N) [rad] that a runner sends in K recorded steps.

    period [s] of the control cycles; states, known: what each step saw, with K as the leading axis, the targets sent
    before in the order of the robot's joints; cold (K,): steps that start without memory, as the first one does. Short
    recordings run in ONNX Runtime: loading a compiled step would take longer than it saves.
    """
    policy = load_policy(model, "onnx" if model.step and len(cold) < COMPILED_FROM else "auto")
    interface, steps = model.card.interface, len(cold)
    limiter = JointLimiter(robot, period, steps)
    limiter.start(known.sent[0])
    if not interface.has_past:  # all observations at once
        seen = ObservationBuilder(interface, robot.joint_names).build(states, known)
        outputs = np.empty((steps, interface.outputs["action"]))
        for first, end in pairwise([*np.flatnonzero(cold), steps]):
            policy.reset()
            outputs[first:end] = policy.sequence(seen[first:end])
        decoder = ActionDecoder(interface, robot, (steps,))
        return limiter.limit(decoder.decode(outputs, (states.joint_position, states.joint_velocity)))
    runner = PolicyRunner(policy, interface, JointLimiter(robot, period))
    actions = np.empty(known.sent[0].shape)
    for step in range(steps):
        if cold[step]:
            runner.reset()
        runner.limiter.last, runner.limiter.previous = (sent[step] for sent in known.sent)
        runner.repeat_command(*(np.asarray(values)[step] for values in known[:3]))
        actions[step] = runner.act(runner.observe({name: getattr(states, name)[step] for name in ROBOT_SIGNALS}))
        runner.send(actions[step])
    return limiter.limit(actions)
