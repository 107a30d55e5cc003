"""What every policy can do, whatever network it holds and whatever runs it."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt


class Policy(Protocol):
    """A policy with memory: one action per control period."""

    def reset(self) -> None:
        """Forget every past observation (a cold start)."""

    def step(self, observation: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Joint position targets (12,) [rad] in JOINT_NAMES order for an observation (70,) of observation.LAYOUT.

        The array returned belongs to the caller. Raises guard.NonFiniteObservation, with the memory untouched, when an
        entry is NaN or infinite.
        """
