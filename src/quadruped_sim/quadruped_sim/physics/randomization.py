"""What differs from robot to robot and from its model: the ranges, and drawing from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import mujoco
import numpy as np

from fcnet_core.files import NotNegative

if TYPE_CHECKING:
    Range = tuple[float, float]
else:
    # As settings files have it, see `pair`, which checks it: msgspec 0.22 reads foreign memory where a union has both a
    # tuple of fixed length and a number with a range.
    Range = tuple[float, float] | float


def pair(value: Range | float) -> Range:
    """Both ends of a range for which a settings file may give one number. Raises ValueError for what is no range."""
    lowest, highest = value if isinstance(value, tuple) else (value, value)
    if not -1e9 <= lowest <= highest <= 1e9:  # as long as an evaluation holds its setpoints
        raise ValueError(f"the range {value} must go from a lower to a higher number, both within +-1e9")
    return lowest, highest


class Randomization(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ranges from which each robot draws: friction coefficient, added trunk mass [kg], factors of the joint gains and
    of the motors' strength, and the delay of its commands [s]. `noise` scales SENSOR_NOISE.
    """

    friction: Range = (0.7, 1.2)
    payload: Range = (-0.5, 1.0)
    gain: Range = (0.95, 1.05)
    strength: Range = (1.0, 1.0)
    delay: Range = (0.0, 0.02)
    noise: NotNegative = 1.0

    def __post_init__(self) -> None:
        for name in ("friction", "payload", "gain", "strength", "delay"):
            msgspec.structs.force_setattr(self, name, pair(getattr(self, name)))


TYPICAL = Randomization()
NOMINAL = Randomization((1.0, 1.0), (0.0, 0.0), (1.0, 1.0), (1.0, 1.0), (0.0, 0.0))


def randomize(model: mujoco.MjModel, drawn: Randomization, rng: np.random.Generator) -> None:
    """Draw a robot: change friction, trunk mass, gains and motor strength of `model` in place."""
    model.geom_friction[:, 0] = rng.uniform(*drawn.friction)
    trunk = model.body("trunk").id
    loaded = 1 + rng.uniform(*drawn.payload) / model.body_mass[trunk]
    model.body_mass[trunk] *= loaded
    model.body_inertia[trunk] *= loaded
    strength = rng.uniform(*drawn.strength)
    factor = strength * rng.uniform(*drawn.gain, size=model.nu)
    model.actuator_gainprm[:, 0] *= factor
    model.actuator_biasprm[:, 1] *= factor
    model.actuator_biasprm[:, 2] *= factor
    model.actuator_forcerange *= strength
