"""What a person might ask of the robots: setpoints drawn at random, and drawn anew now and then."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fcnet_core.robot import SETPOINT_FIELDS

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Range = tuple[float, float]


@dataclass(frozen=True)
class SetpointRanges:
    """Ranges by setpoint field (fields left out are zero), how long a setpoint holds [s], which share of the draws
    stands still, and which share of them has the fields of `sometimes` as well.
    """

    always: dict[str, Range] = field(default_factory=dict)
    sometimes: dict[str, Range] = field(default_factory=dict)
    sometimes_share: float = 0.35
    hold: Range = (1.5, 5.0)
    standing_share: float = 0.0

    def __post_init__(self) -> None:
        if unknown := sorted({*self.always, *self.sometimes} - set(SETPOINT_FIELDS)):
            raise ValueError(f"unknown setpoint fields {unknown}; known are {', '.join(SETPOINT_FIELDS)}")


class SetpointSource:
    """Setpoints (batch, 9) for a batch of robots, one control period after another."""

    def __init__(self, ranges: SetpointRanges, batch: int, period: float, rng: np.random.Generator) -> None:
        self._ranges = ranges
        self._period = period
        self._rng = rng
        self._setpoint: Array = np.zeros((batch, len(SETPOINT_FIELDS)))
        self._left: Array = np.zeros(batch)

    def step(self) -> Array:
        """The setpoints (batch, 9) of the next control period."""
        due = self._left <= 0
        if due.any():
            self._draw(due)
        self._left -= 1
        return self._setpoint

    def _draw(self, mask: Mask) -> None:
        count = int(mask.sum())
        fresh = np.zeros((count, len(SETPOINT_FIELDS)))
        for name, (low, high) in self._ranges.always.items():
            fresh[:, SETPOINT_FIELDS.index(name)] = self._rng.uniform(low, high, count)
        extra = self._rng.random(count) < self._ranges.sometimes_share
        for name, (low, high) in self._ranges.sometimes.items():
            fresh[extra, SETPOINT_FIELDS.index(name)] = self._rng.uniform(low, high, count)[extra]
        still = self._rng.random(count) < self._ranges.standing_share
        fresh[still, :3] = 0.0
        self._setpoint[mask] = fresh
        self._left[mask] = np.round(self._rng.uniform(*self._ranges.hold, count) / self._period)
