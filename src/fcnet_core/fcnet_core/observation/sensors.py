"""Random errors of a robot's sensors, by the figures in config/sensors.yaml."""

import math
from collections.abc import Mapping
from functools import cache
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.random import Generator

from fcnet_core.arrays import Array, ArraySpec, Floats, Mask, Single, part_name
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


class SensorErrors:
    """Errors of sensors in observations (n,) with named parts, of a batch of B robots or (None) of one.

    scale: factor of the errors of each entry, 0 for none. Equal generators give equal errors. Attitude drifts about the
    two level axes: the third entry of `projected_gravity` has only white noise.
    """

    def __init__(
        self, sensors: Sensors, spec: ArraySpec, rng: Generator, batch: int | None = None, scale: Single | float = 1.0
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
        figures[:4] *= np.abs(scale)
        self._off = not figures[:4].any()
        white = not figures[1:4].any()  # white noise alone is drawn for all entries, as in earlier releases
        self._at = slice(None) if white else np.flatnonzero(figures[:4].any(axis=0))
        self._white, drift, bound, step, time_constant = figures[:, self._at].astype(np.float32)
        self._drifts, self._rounded = np.flatnonzero(drift), np.flatnonzero(step)
        _, one, self._of = np.unique(reading[self._at][self._drifts], return_index=True, return_inverse=True)
        once = self._drifts[one]
        self._drift, self._bound, self._time_constant = (row[once] for row in (drift, bound, time_constant))
        self._step, self._rng, self._slow_rng = step[self._rounded], rng, rng.spawn(1)[0]
        self._slow: Array = np.zeros((len(once),) if batch is None else (batch, len(once)))
        self.reset()

    def reset(self, mask: Mask | None = None) -> None:
        """Draw the slow errors of the robots in `mask`, or of all, from their distribution."""
        fresh = self._limited(self._drift * self._slow_rng.standard_normal(self._slow.shape))
        self._slow = fresh if mask is None else np.where(mask[:, None], fresh, self._slow)

    def measure(self, true: Floats, period: float) -> Floats:
        """Return the measured observations of T true ones (T, B, n) or (T, n) in a row, `period` [s] apart."""
        if self._off:
            return true
        seen = true[..., self._at]
        seen = seen + self._white * self._rng.standard_normal(seen.shape, dtype=np.float32)
        keep = np.exp(-period / self._time_constant)
        slow = self._slow_rng.standard_normal((len(seen), *self._slow.shape))
        slow *= self._drift * np.sqrt(1 - keep**2)
        for row in slow:
            self._slow = row[:] = self._limited(keep * self._slow + row)
        seen[..., self._drifts] += slow[..., self._of]
        seen[..., self._rounded] = self._step * np.rint(seen[..., self._rounded] / self._step)
        measured = true.copy()
        measured[..., self._at] = seen
        return measured

    def _limited(self, slow: Array) -> Array:
        return np.minimum(np.maximum(slow, -self._bound), self._bound)
