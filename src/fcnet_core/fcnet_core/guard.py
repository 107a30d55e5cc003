"""The finite-value guard: one NaN would stay in a recurrent state for ever, so it is stopped before any is touched."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


class NonFiniteObservation(ValueError):
    """An observation holds NaN or infinity; the policy's state is as it was before."""


def finite_observation(observation: npt.ArrayLike, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """The observation as contiguous float32, of the given shape.

    Raises NonFiniteObservation when an entry is NaN, infinite or beyond float32, ValueError for another shape.
    """
    with np.errstate(over="ignore"):
        checked = np.ascontiguousarray(observation, dtype=np.float32)
    if checked.shape != shape:
        raise ValueError(f"the policy expects an observation of shape {shape}, not {checked.shape}")
    finite = np.isfinite(checked)
    if not finite.all():
        entries = ", ".join(str(entry if len(shape) > 1 else entry[0]) for entry in np.argwhere(~finite).tolist()[:5])
        raise NonFiniteObservation(f"the observation is not finite at {entries}; check the sensor that fills it")
    return checked
