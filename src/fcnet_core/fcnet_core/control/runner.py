"""Steps a policy in control cycles: from setpoints and measured states to joint targets."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.model_file import PolicyModel
from fcnet_core.observation import MeasuredState, assemble_observation
from fcnet_core.policy import Policy

REST = 1e-3  # [m/s, rad/s, m, rad] a smaller setpoint counts as zero


class PolicyRunner:
    """Steps a policy at its trained rate; in control cycles between, it holds the last targets, as in training.

    Controller, replay of bags and playback of recordings step policies through this class. on_step: called with the
    duration [s] of each step. Raises ValueError if `control_rate` [Hz] is not a whole multiple of the model's.
    """

    def __init__(
        self,
        policy: Policy,
        model: PolicyModel,
        control_rate: float,
        on_step: Callable[[float], None] = lambda _duration: None,
    ) -> None:
        multiple = control_rate / model.card.control_rate
        if multiple < 1 or abs(multiple - round(multiple)) > 1e-6:
            raise ValueError(
                f"control_rate is {control_rate:g} Hz, but the model runs at {model.card.control_rate:g} Hz; "
                "choose a whole multiple of that"
            )
        self._policy = policy
        self._shaper = model.command_shaper()
        self._every = round(multiple)
        self._countdown = 0  # control cycles for which the last targets still hold
        self._has_command = False  # whether `command` is for the next step
        self._on_step = on_step
        self.steps = 0  # of the policy since `begin`
        self.command: Array = self._shaper.command()[0]  # (16,) of the next or the last step
        self._target: Array = np.full(model.card.config.action, np.nan)

    @property
    def at_rest(self) -> bool:
        """Whether the setpoints are zero and the gait clock is at rest."""
        return not self._shaper.clock.walking[0] and bool((np.abs(self._shaper.setpoint) < REST).all())

    @property
    def limited(self) -> str:
        """The limited fields of the newest setpoints, see CommandShaper.limited."""
        return self._shaper.limited()

    def begin(self) -> None:
        """Clear the memory and the command, and bring the gait clock to rest."""
        self._policy.reset()
        self._shaper.reset()
        self.command = self._shaper.command()[0]
        self._countdown, self._has_command = 0, False
        self.steps = 0

    def take_command(self, requested: Array) -> None:
        """Move the command towards setpoints (9,); call once before every control cycle."""
        if self._countdown == 0 and not self._has_command:
            self.command, self._has_command = self._shaper.step(requested)[0], True

    def repeat_command(self, command: Array) -> None:
        """Step the policy in the next control cycle with a recorded command (16,); instead of `take_command`."""
        self.command, self._countdown = command, 0

    def targets(self, state: MeasuredState, last_sent: Array) -> Array:
        """Return position targets (12,) [rad] for this control cycle. last_sent: the targets sent before (12,) [rad].

        Raises NonFiniteObservation, with the policy's memory unchanged. The next control cycle then tries the step
        again, with the same command.
        """
        if self._countdown == 0:
            self._target = self._step(state, last_sent)
            self._countdown, self._has_command = self._every, False
        self._countdown -= 1
        return self._target

    def _step(self, state: MeasuredState, last_sent: Array) -> Array:
        observation = assemble_observation(
            state.orientation,
            state.angular_velocity,
            state.joint_position,
            state.joint_velocity,
            last_sent,
            self.command,
        )
        started = time.perf_counter()
        action = self._policy.step(observation)
        self._on_step(time.perf_counter() - started)
        self.steps += 1
        return action.astype(np.float64)
