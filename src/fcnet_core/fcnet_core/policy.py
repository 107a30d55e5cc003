"""The policy interface, and the runner that asks a policy at the rate it was trained for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import numpy as np

from fcnet_core.arrays import Array, Single
from fcnet_core.command import CommandShaper
from fcnet_core.model_file import PolicyModel
from fcnet_core.observation import MeasuredState, assemble_observation

REST = 1e-3  # [m/s, rad/s, m, rad] a setpoint below this is zero


class Policy(Protocol):
    """A policy with memory: one action per control period."""

    def reset(self) -> None:
        """Forget every past observation (a cold start)."""

    def step(self, observation: Single) -> Single:
        """The action for an observation; on a robot joint position targets (12,) [rad] in JOINT_NAMES order for an
        observation (70,) of observation.LAYOUT.

        The array returned belongs to the caller. Raises observation.NonFiniteObservation, with the memory untouched,
        when an entry is NaN or infinite.
        """


class Walking:
    """Asks the policy for targets at the rate it was trained for; in control cycles between, its last targets hold.
    The controller, the replay of bags and the playback of recordings all step policies through this one class.

    Holding, not interpolating, is what the policy has learnt with. Raises ValueError when `control_rate` [Hz] is not a
    whole multiple of the model's. `on_step` is told how long each step of the policy took [s].
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
        self._shaper = CommandShaper(model.command_ranges, model.gait, 1.0 / model.card.control_rate)
        self._every = round(multiple)
        self._countdown = 0
        self._on_step = on_step
        self.steps = 0  # of the policy since it began
        self._command: Array = self._shaper.command()[0]
        self._target: Array = np.zeros(model.card.config.action)

    @property
    def at_rest(self) -> bool:
        """Whether the setpoints are zero and no foot is on its way."""
        return not self._shaper.clock.walking[0] and bool((np.abs(self._shaper.setpoint) < REST).all())

    @property
    def command(self) -> Array:
        """The command vector (16,) that the policy sees next, or saw last."""
        return self._command

    def begin(self) -> None:
        """Start cold: nothing remembered, no command, the gait clock at rest."""
        self._policy.reset()
        self._shaper.reset()
        self._command = self._shaper.command()[0]
        self._countdown = 0
        self.steps = 0

    def take_command(self, wanted: Array) -> None:
        """Move on towards setpoints (9,), once before every control cycle."""
        if self._countdown == 0:
            self._command = self._shaper.step(wanted)[0]

    def repeat_command(self, command: Array) -> None:
        """In place of `take_command`: ask the policy in the next control cycle, with a recorded command (16,)."""
        self._command, self._countdown = command, 0

    def targets(self, state: MeasuredState, last_sent: Array) -> Array:
        """Position targets (12,) [rad] for this control cycle; last_sent: the targets sent before (12,) [rad].

        Raises fcnet_core.observation.NonFiniteObservation with the policy's memory untouched.
        """
        if self._countdown == 0:
            self._countdown = self._every
            self._target = self._step(state, last_sent)
        self._countdown -= 1
        return self._target

    def _step(self, state: MeasuredState, last_sent: Array) -> Array:
        observation = assemble_observation(
            state.orientation,
            state.angular_velocity,
            state.joint_position,
            state.joint_velocity,
            last_sent,
            self._command,
        )
        started = time.perf_counter()
        action = self._policy.step(observation)
        self._on_step(time.perf_counter() - started)
        self.steps += 1
        return action.astype(np.float64)
