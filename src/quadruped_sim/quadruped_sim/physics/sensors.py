"""Sensors: noise, encoder offsets and dropouts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array, Mask
from fcnet_core.observation import LAYOUT, OBSERVATION_SIZE, SENSOR_NOISE
from quadruped_sim.physics.simulation import CONTROL_PERIOD, BodyState, Simulation

NOISE_LEVELS = np.zeros(OBSERVATION_SIZE, dtype=np.float32)
for _part, _place in LAYOUT.items():
    NOISE_LEVELS[_place] = SENSOR_NOISE.get(_part, 0.0)


def noisy(observation: npt.NDArray[np.float32], scale: float, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """Add sensor noise to observations (..., 70)."""
    if scale == 0.0:
        return observation
    return observation + scale * NOISE_LEVELS * rng.standard_normal(observation.shape, dtype=np.float32)


class Sensors:
    """States that arrive from the robots of a simulation, without noise: joint angles as the encoders count them and,
    while states drop out, the last state that came.
    """

    MEASURED = ("orientation", "angular_velocity", "joint_position", "joint_velocity")

    def __init__(self, simulation: Simulation, rng: np.random.Generator) -> None:
        self._simulation = simulation
        self._rng = rng
        self._left = np.zeros(simulation.batch)  # [s] until states arrive again
        self._last: dict[str, Array] = {}

    def reset(self, mask: Mask) -> None:
        """End the dropouts of the robots in `mask` (B,)."""
        self._left[mask] = 0.0

    def measure(self, state: BodyState) -> BodyState:
        """Return the state that arrives in this control period; call it once in each. Unmeasured fields stay true."""
        arriving = {name: getattr(state, name) for name in self.MEASURED}
        arriving["joint_position"] = state.joint_position + self._simulation.drawn.joint_zero
        missing = self._left >= CONTROL_PERIOD / 2
        if missing.any():
            arriving = {name: np.where(missing[:, None], self._last[name], new) for name, new in arriving.items()}
        self._last = arriving
        self._left -= CONTROL_PERIOD
        self._drop()
        return replace(state, **arriving)

    def _drop(self) -> None:
        """Let the next states of some robots drop out."""
        ranges = self._simulation.randomization
        if ranges.dropout[1] > 0.0:
            batch = len(self._left)
            begins = self._rng.random(batch) < CONTROL_PERIOD / ranges.dropout_interval
            lengths = self._rng.uniform(*ranges.dropout, batch)
            self._left = np.where(begins & (self._left <= 0.0), lengths, self._left)
