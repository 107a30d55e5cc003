"""What differs from one simulated robot to the next, and how badly its sensors see."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
import numpy.typing as npt

from fcnet_core.observation import LAYOUT, OBSERVATION_SIZE

Range = tuple[float, float]

# Standard deviations of the sensor noise: attitude as gravity's direction, joint velocity [rad/s], sine and cosine of
# joint position [rad], angular velocity [rad/s]. What the controller itself computes has none.
SENSOR_NOISE: dict[str, float] = {
    "projected_gravity": 0.02,
    "joint_velocity": 0.3,
    "sin_joint_position": 0.01,
    "cos_joint_position": 0.01,
    "angular_velocity": 0.1,
}


@dataclass(frozen=True)
class Randomization:
    """Ranges from which each robot draws: friction coefficient, added trunk mass [kg], factors of the joint gains and
    of the motors' strength, and the delay of its commands [s]. `noise` scales SENSOR_NOISE.
    """

    friction: Range = (1.0, 1.0)
    payload: Range = (0.0, 0.0)
    gain: Range = (1.0, 1.0)
    strength: Range = (1.0, 1.0)
    delay: Range = (0.0, 0.0)
    noise: float = 1.0


NOMINAL = Randomization()
TYPICAL = Randomization(friction=(0.7, 1.2), payload=(-0.5, 1.0), gain=(0.95, 1.05), delay=(0.0, 0.02))


def randomize(model: mujoco.MjModel, drawn: Randomization, rng: np.random.Generator) -> None:
    """Draw a robot: change friction, trunk mass, gains and motor strength of `model` in place."""
    model.geom_friction[:, 0] = rng.uniform(*drawn.friction)
    _load(model, rng.uniform(*drawn.payload))
    strength = rng.uniform(*drawn.strength)
    factor = strength * rng.uniform(*drawn.gain, size=model.nu)
    model.actuator_gainprm[:, 0] *= factor
    model.actuator_biasprm[:, 1] *= factor
    model.actuator_biasprm[:, 2] *= factor
    model.actuator_forcerange *= strength


def noisy(observation: npt.NDArray[np.float32], scale: float, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """Observations (..., 70) as the sensors would give them."""
    if scale == 0.0:
        return observation
    return observation + scale * NOISE_LEVELS * rng.standard_normal(observation.shape, dtype=np.float32)


def _load(model: mujoco.MjModel, payload: float) -> None:
    trunk = model.body("trunk").id
    factor = 1 + payload / model.body_mass[trunk]
    model.body_mass[trunk] *= factor
    model.body_inertia[trunk] *= factor


def _noise_levels() -> npt.NDArray[np.float32]:
    levels = np.zeros(OBSERVATION_SIZE, dtype=np.float32)
    for part, deviation in SENSOR_NOISE.items():
        levels[LAYOUT[part]] = deviation
    return levels


NOISE_LEVELS = _noise_levels()
