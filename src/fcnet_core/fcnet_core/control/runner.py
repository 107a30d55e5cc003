"""The path from setpoints and measured states to joint targets, for every policy: live, replayed and simulated."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array, Mask, Single
from fcnet_core.control.command import CommandShaper
from fcnet_core.errors import FcnetError
from fcnet_core.model_file import PolicyModel
from fcnet_core.observation import MeasuredState, assemble_observation
from fcnet_core.policy import Policy, load_policy
from fcnet_core.robot import Robot

COMPILED_FROM = 10_000  # steps; loading numba takes as long as so many steps of FCNet in ONNX Runtime
REST = 1e-3  # [m/s, rad/s, m, rad] a smaller setpoint counts as zero


class JointLimiter:
    """Clips position targets to the robot's limits, limits their rate and replaces NaN; the last stage of every target.

    batch: number of robots, the leading axis of all arrays; None for one robot without that axis. last, previous: the
    targets sent last and those sent before (..., 12) [rad].
    """

    def __init__(self, robot: Robot, period: float, batch: int | None = None) -> None:
        self.period = period
        self._lower, self._upper = robot.lower, robot.upper
        self._step = robot.safety.max_target_rate * period
        self.start(robot.rest_pose if batch is None else np.tile(robot.rest_pose, (batch, 1)))

    def start(self, position: npt.ArrayLike, mask: Mask | None = None) -> None:
        """Start at joint positions (..., 12) [rad], clipped to the limits; mask (batch,): these robots only."""
        start = self.within_limits(position)
        self.previous: Array = start if mask is None else np.where(mask[:, None], start, self.previous)
        self.last: Array = start if mask is None else np.where(mask[:, None], start, self.last)

    def limit(self, target: npt.ArrayLike) -> Array:
        """Return the targets (..., 12) [rad] to send in this period; NaN becomes the last target."""
        requested = np.asarray(target, dtype=np.float64)
        requested = np.where(np.isnan(requested), self.last, requested)
        slewed = np.minimum(np.maximum(requested, self.last - self._step), self.last + self._step)
        self.previous, self.last = self.last, self.within_limits(slewed)
        return self.last

    def within_limits(self, target: npt.ArrayLike) -> Array:
        """Return targets (..., 12) [rad] clipped to the joint limits."""
        return np.minimum(np.maximum(np.asarray(target, dtype=np.float64), self._lower), self._upper)


class PolicyRunner:
    """setpoints -> ranges, envelope, gait clock -> observation -> policy -> limiter -> joint targets.

    One robot, or a batch with a leading axis (...) of robots, as in the limiter. The policy steps at its own rate, that
    of `shaper`; in control cycles between two steps its action holds, as in training. `policy` may be missing if only
    commands, observations and limits are used. on_step: called with the duration [s] of each step. Raises ValueError if
    the limiter's period is no whole fraction of the policy's.

    What enters a step and no other topic records: command (..., 16), and whether `steps` since the reset of all robots
    were 0 before it.
    """

    def __init__(
        self,
        policy: Policy | None,
        shaper: CommandShaper,
        limiter: JointLimiter,
        on_step: Callable[[float], None] = lambda _duration: None,
    ) -> None:
        multiple = shaper.clock.period / limiter.period
        if multiple < 0.5 or abs(multiple - round(multiple)) > 1e-6:
            raise ValueError(
                f"control_rate is {1 / limiter.period:g} Hz, but the model runs at {1 / shaper.clock.period:g} Hz; "
                "choose a whole multiple of that"
            )
        self.shaper, self.limiter = shaper, limiter
        self._policy, self._on_step = policy, on_step
        self._every = round(multiple)
        self._action: Array = limiter.last
        self.command = self._for_limiter(shaper.command())
        self.steps = self._countdown = 0  # the countdown: control cycles for which the action still holds
        self._has_command = False

    @property
    def at_rest(self) -> bool:
        """Whether the setpoints are zero and the gait clock is at rest, of one robot."""
        return not self.shaper.clock.walking[0] and bool((np.abs(self.shaper.setpoint) < REST).all())

    def reset(self, mask: Mask | None = None) -> None:
        """Clear memory and commands of the robots in `mask` (batch,), or of all; bring their gait clocks to rest."""
        if self._policy is not None:
            self._policy.reset(mask)
        self.shaper.reset(mask)
        self.command = self._for_limiter(self.shaper.command())
        if mask is None:
            self.steps, self._countdown, self._has_command = 0, 0, False

    def take_command(self, requested: Array) -> None:
        """Move the command towards setpoints (..., 9); call once before every control cycle."""
        if self._countdown == 0 and not self._has_command:
            self.command, self._has_command = self._for_limiter(self.shaper.step(requested)), True

    def repeat_command(self, command: Array) -> None:
        """Step the policy in the next control cycle with a recorded command (16,); instead of `take_command`."""
        self.command, self._countdown = command, 0

    def targets(self, state: MeasuredState) -> Array:
        """Return the position targets (..., 12) [rad] to send in this control cycle.

        Raises FcnetError as `act`. The next control cycle then tries the step again, with the same command.
        """
        if self._countdown == 0:
            self._action = self.act(self.observe(state))
            self._countdown = self._every
        self._countdown -= 1
        return self.send(self._action)

    def observe(self, state: MeasuredState) -> Single:
        """Return what the policy sees in a state, after `take_command`: observations (..., 70)."""
        return observation_of(state, self.limiter.last, self.command)

    def act(self, observation: Single) -> Array:
        """Return the policy's action (..., 12) [rad] for an observation, which `send` limits.

        Raises NonFiniteObservation, with the policy's memory unchanged, and FcnetError if the action is not finite.
        """
        assert self._policy is not None
        started = time.perf_counter()
        action = self._policy.step(observation)
        self._on_step(time.perf_counter() - started)
        if not np.isfinite(action).all():
            raise FcnetError("the policy returned a target that is not finite; check the model file")
        self.steps += 1
        return action.astype(np.float64)

    def send(self, wanted: Array) -> Array:
        """Return position targets (..., 12) [rad] within limits and slew: the targets of this control cycle."""
        self._has_command = False
        return self.limiter.limit(wanted)

    def _for_limiter(self, command: Array) -> Array:
        """Return commands (batch, 16) with the leading axis of the limiter."""
        return command.reshape(*self.limiter.last.shape[:-1], -1)


def observation_of(state: MeasuredState, last_sent: Array, command: Array) -> Single:
    """Return the observation (..., 70) of a state. last_sent: the targets sent before (..., 12) [rad]."""
    return assemble_observation(
        state.orientation, state.angular_velocity, state.joint_position, state.joint_velocity, last_sent, command
    )


def recorded_targets(
    model: PolicyModel, robot: Robot, period: float, observations: Single, last_sent: Array, cold: Mask
) -> Array:
    """Return the targets (K, 12) [rad] that a runner sends in K recorded steps.

    period [s] of the control cycles; last_sent: recorded targets before each step (K, 12) [rad]; cold (K,): steps that
    start without memory, as the first one does. Short recordings run in ONNX Runtime: loading a compiled step would
    take longer than it saves.
    """
    policy = load_policy(model, "onnx" if model.step and len(observations) < COMPILED_FROM else "auto")
    limiter = JointLimiter(robot, period, len(observations))
    limiter.start(last_sent)
    actions = np.empty(last_sent.shape)
    for step, observation in enumerate(observations):
        if cold[step]:
            policy.reset()
        actions[step] = policy.step(observation)
    return limiter.limit(actions)
