"""Random errors of a robot's sensors, by the figures in config/sensors.yaml."""

import math
from collections.abc import Mapping, Sequence
from copy import copy
from functools import cache
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.random import Generator

from fcnet_core.arrays import ArraySpec, Floats, Mask, Rows, Single, part_name
from fcnet_core.files import CONFIG, NotNegative, Positive, read_settings

SensorModel = Literal["board", "white"]
DEFAULT: SensorModel = "board"


class Sensor(Struct, frozen=True, forbid_unknown_fields=True):
    """Errors of one sensor, see config/sensors.yaml."""

    white: NotNegative = 0.0
    drift: NotNegative = 0.0
    bound: NotNegative = 0.0
    step: NotNegative = 0.0
    time_constant: Positive = math.inf
    late: bool = False


Sensors = Mapping[str, Sensor]  # by part of an observation


@cache
def sensors_of(model: SensorModel) -> Sensors:
    """Return the sensors of a model."""
    return read_settings(CONFIG / "sensors.yaml", dict[SensorModel, dict[str, Sensor]], "sensor file")[model]


class BatchGenerator:
    """Normal numbers for the robots `share` of a batch of `size`; a robot's depend on its place in the batch alone.

    Each group of GROUP robots has a generator, which follows from `seed`.
    """

    GROUP = 64

    def __init__(self, seed: Sequence[int], size: int, share: slice) -> None:
        first = share.start // self.GROUP * self.GROUP
        self._kept = slice(share.start - first, share.stop - first)
        groups = range(first, share.stop, self.GROUP)
        self._groups = [(np.random.default_rng([*seed, start]), min(self.GROUP, size - start)) for start in groups]

    def spawn(self, count: int) -> list["BatchGenerator"]:
        """Return `count` independent ones, as Generator does."""
        made = [copy(self) for _ in range(count)]
        for child in made:
            child._groups = [(rng.spawn(1)[0], robots) for rng, robots in self._groups]
        return made

    def standard_normal(self, shape: Sequence[int], dtype: type[np.float32 | np.float64] = np.float64) -> Floats:
        """Return numbers (..., robots, n), as Generator does."""
        *steps, _, size = shape
        drawn: list[Floats] = [rng.standard_normal((robots, *steps, size), dtype) for rng, robots in self._groups]
        return np.moveaxis(np.concatenate(drawn)[self._kept], 0, -2)


Normals = Generator | BatchGenerator


class SensorErrors:
    """Errors of sensors in observations (n,) with named parts, of a batch of B robots or (None) of one.

    scale: factor of the errors, 0 for none; of each entry (n,), or of each robot's (B, n). Equal generators give equal
    errors. Attitude drifts about the two level axes: the third entry of `projected_gravity` has only white noise.
    """

    def __init__(
        self, sensors: Sensors, spec: ArraySpec, rng: Normals, batch: int | None = None, scale: Floats | float = 1.0
    ) -> None:
        figures, reading, firsts = np.zeros((5, *spec.shape)), np.arange(spec.shape[0]), dict[str, int]()
        for part, place in spec.slices().items():
            sensor = sensors.get(name := part_name(part), Sensor())
            errors = (sensor.white, sensor.drift, sensor.bound, sensor.step, sensor.time_constant)
            figures[:, place] = np.array(errors)[:, None]
            if name == "projected_gravity":
                figures[1, place][2:] = 0.0
            first = firsts.setdefault(name, place.start)  # earlier frames of a history drift as this one
            reading[place] += first - place.start
        factors: Floats = np.abs(np.broadcast_to(scale, np.broadcast_shapes(np.shape(scale), spec.shape)))
        figures[:4] *= np.atleast_2d(factors).any(axis=0)
        self._off = not figures[:4].any()
        noisy = np.flatnonzero(figures[0])
        if factors.ndim == 1:  # draws of earlier releases: for all entries with an error, or all if that is white noise
            noisy = np.flatnonzero(figures[:4].any(axis=0)) if figures[1:4].any() else np.arange(len(reading))
        drifts, rounded = np.flatnonzero(figures[1]), np.flatnonzero(figures[3])
        _, one, self._of = np.unique(reading[drifts], return_index=True, return_inverse=True)
        once = drifts[one]

        def scaled(index: int, entries: Rows) -> Single:
            return (figures[index, entries] * factors[..., entries]).astype(np.float32, order="C")

        self._white, self._drift, self._step = scaled(0, noisy), scaled(1, once), scaled(3, rounded)
        self._noisy, self._drifts, self._rounded = _runs(noisy), _runs(drifts), _runs(rounded)
        self._rng, self._slow_rng = rng, rng.spawn(1)[0]
        self._slow: Floats = np.zeros((len(once),) if batch is None else (batch, len(once)))
        self._bound = np.zeros_like(self._slow) + scaled(2, once)
        self._time_constant = np.broadcast_to(figures[4, once], self._slow.shape).astype(np.float32)
        self.reset()

    def reset(self, mask: Mask | None = None) -> None:
        """Draw the slow errors of the robots in `mask`, or of all, from their distribution."""
        fresh = (self._drift * self._slow_rng.standard_normal(self._slow.shape)).clip(-self._bound, self._bound)
        self._slow = fresh if mask is None else np.where(mask[:, None], fresh, self._slow)

    def measure(self, true: Floats, period: float) -> Floats:
        """Return the measured observations of T true ones (T, B, n) or (T, n) in a row, `period` [s] apart."""
        if self._off:
            return true
        measured = true.copy(order="K")
        noise = self._rng.standard_normal((*true.shape[:-1], self._white.shape[-1]), dtype=np.float32)
        noise *= self._white
        for entries, places in self._noisy:
            measured[..., entries] += noise[..., places]
        if self._drifts:
            slow = self._slow_errors(len(true), period)[..., self._of]
            for entries, places in self._drifts:
                measured[..., entries] += slow[..., places]
        for entries, places in self._rounded:
            step = self._step[..., places]
            measured[..., entries] = step * np.rint(measured[..., entries] / step)
        return measured

    def _slow_errors(self, steps: int, period: float) -> Floats:
        """Return the slow errors of the next steps (steps, B, n) or (steps, n)."""
        keep = np.exp(-period / self._time_constant)
        drawn = self._slow_rng.standard_normal((steps, *self._slow.shape)) * (self._drift * np.sqrt(1 - keep**2))
        slow, last, bound = drawn.reshape(steps, -1), self._slow.ravel(), self._bound.ravel()  # vectors are faster
        keep, low = keep.astype(np.float64).ravel(), -bound
        for row in slow:
            row += keep * last
            last = np.minimum(np.maximum(row, low, out=row), bound, out=row)
        self._slow = last.reshape(self._slow.shape)
        return slow.reshape(drawn.shape)


def _runs(entries: Rows) -> list[tuple[slice, slice]]:
    """Return slices of consecutive entries: their places in an observation, and in `entries`. Indices are slower."""
    starts = np.flatnonzero(np.diff(entries, prepend=-2) != 1).tolist()
    pairs = zip(starts, [*starts[1:], len(entries)], strict=False)
    return [(slice(entries[start], entries[end - 1] + 1), slice(start, end)) for start, end in pairs]
