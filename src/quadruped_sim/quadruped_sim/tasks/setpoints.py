"""Commands of an episode: setpoints drawn from ranges, each held for some seconds."""

from typing import Annotated

import msgspec
import numpy as np

from fcnet_core.arrays import Array, Mask
from fcnet_core.robot import SETPOINT_FIELDS
from quadruped_sim.physics.randomization import Range, pair

Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]


class SetpointRanges(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ranges by setpoint field (fields left out are zero), how long a setpoint holds [s], which share of the draws
    stands still, which share of them has the fields of `sometimes` as well, and which share is a corner: every field at
    an end of its range, where uniform draws are rare and a robot is most likely to fall. With `levels` of 2 or
    more, only so many evenly spaced values of a range are drawn, its ends among them.
    """

    always: dict[str, Range] = {}
    sometimes: dict[str, Range] = {}
    sometimes_share: Fraction = 0.35
    hold: Range = (1.5, 5.0)
    standing_share: Fraction = 0.0
    corner_share: Fraction = 0.0
    levels: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0

    def __post_init__(self) -> None:
        if unknown := sorted({*self.always, *self.sometimes} - set(SETPOINT_FIELDS)):
            raise ValueError(f"unknown setpoint fields {unknown}; known are {', '.join(SETPOINT_FIELDS)}")
        msgspec.structs.force_setattr(self, "hold", pair(self.hold))
        for name in ("always", "sometimes"):
            ranges = {entry: pair(value) for entry, value in getattr(self, name).items()}
            msgspec.structs.force_setattr(self, name, ranges)


class SetpointSource:
    """Setpoints (batch, 9) for a batch of robots, one control period after another."""

    def __init__(self, ranges: SetpointRanges, batch: int, period: float, rng: np.random.Generator) -> None:
        self._ranges, self._period, self._rng = ranges, period, rng
        self._setpoint: Array = np.zeros((batch, len(SETPOINT_FIELDS)))
        self._left: Array = np.zeros(batch)

    def step(self) -> Array:
        """Return the setpoints (batch, 9) of the next control period."""
        due, ranges, rng = self._left <= 0, self._ranges, self._rng
        if count := int(due.sum()):
            fresh = np.zeros((count, len(SETPOINT_FIELDS)))
            share = ranges.corner_share
            corner = rng.random(count) < share if share else np.zeros(count, dtype=bool)
            for name, ends in ranges.always.items():
                fresh[:, SETPOINT_FIELDS.index(name)] = self._values(ends, corner)
            extra = rng.random(count) < ranges.sometimes_share
            for name, ends in ranges.sometimes.items():
                fresh[extra, SETPOINT_FIELDS.index(name)] = self._values(ends, corner)[extra]
            fresh[rng.random(count) < ranges.standing_share, :3] = 0.0
            self._setpoint[due] = fresh
            self._left[due] = np.round(rng.uniform(*ranges.hold, count) / self._period)
        self._left -= 1
        return self._setpoint

    def _values(self, ends: tuple[float, float], corner: Mask) -> Array:
        """Sample a value of the range for each element, one of its ends at a corner."""
        if self._ranges.levels < 2:
            values = self._rng.uniform(*ends, len(corner))
        else:
            values = self._rng.choice(np.linspace(*ends, self._ranges.levels), len(corner))
        return np.where(corner, np.where(values > np.mean(ends), ends[1], ends[0]), values)
