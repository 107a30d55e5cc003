"""What happened in a batch of episodes, one robot each: falls, errors against the commands, return."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from fcnet_core.robot import SETPOINT_FIELDS, Robot
from fcnet_core.rotation import roll_pitch_yaw
from quadruped_sim.reward import reward
from quadruped_sim.simulation import CONTROL_PERIOD, BodyState
from quadruped_sim.terrain import Terrain

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

SETTLING_TIME = 1.0  # [s] at the start in which errors do not count
WANTED = [SETPOINT_FIELDS.index(name) for name in ("vx", "vy", "yaw_rate", "height", "roll", "pitch")]


@dataclass(frozen=True)
class Episodes:
    """Sums over the episodes of B robots; columns of the errors: vx, vy [m/s], yaw rate [rad/s], height [m], roll and
    pitch [rad]. Errors are of averages over a stride, compared with the command averaged likewise.
    """

    fell: Mask  # (B,)
    strides: Array  # (B,) number of averages that the sums hold
    absolute: Array  # (B, 6) sums of absolute errors
    signed: Array  # (B, 6) sums of signed errors
    returned: Array  # (B,) return, see reward.py


def join(parts: list[Episodes]) -> Episodes:
    """All the episodes of several batches."""
    names = [entry.name for entry in fields(Episodes)]
    return Episodes(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


class EpisodeRecorder:
    """Watches one batch from the first control period to the last."""

    def __init__(self, robot: Robot, terrain: Terrain, batch: int) -> None:
        self._robot = robot
        self._ground = _GroundBelow(robot, terrain)
        self._window = round(1.0 / (robot.gait.frequency * CONTROL_PERIOD))
        self._returned: Array = np.zeros(batch)
        self._last_targets: Array | None = None
        self._actual: list[Array] = []
        self._wanted: list[Array] = []
        self._upright: list[Mask] = []

    def record(self, state: BodyState, setpoint: Array, upright: Mask) -> None:
        """Note the true state and the shaped setpoints (B, 9) of the robots that are still `upright` (B,)."""
        height = state.position[:, 2:3] - self._ground.height(state.position)
        attitude = roll_pitch_yaw(state.orientation)
        actual = np.concatenate([heading_velocity(state, attitude[:, 2]), height, attitude[:, :2]], axis=1)
        wanted = setpoint[:, WANTED]
        wanted[:, 3] += self._robot.nominal_height
        self._actual.append(np.where(upright[:, None], actual, 0.0))
        self._wanted.append(np.where(upright[:, None], wanted, 0.0))
        self._upright.append(upright)

    def pay(self, torque: Array, targets: Array) -> None:
        """Add the reward of the period just recorded, for motor torques (B, 12) [Nm] and targets (B, 12) [rad]."""
        change = np.zeros_like(targets) if self._last_targets is None else targets - self._last_targets
        earned = reward(self._actual[-1][:, :3], self._wanted[-1][:, :3], torque, change)
        self._returned += np.where(self._upright[-1], earned, 0.0) * CONTROL_PERIOD
        self._last_targets = targets

    def episodes(self, fell: Mask) -> Episodes:
        """The sums over everything recorded, for the robots of which these `fell` (B,)."""
        first = round(SETTLING_TIME / CONTROL_PERIOD)
        error = np.stack(self._actual) - np.stack(self._wanted)
        averages = _moving_average(error, self._window)[first:]
        upright = np.stack(self._upright)[first + self._window - 1 :, :, None]
        return Episodes(
            fell=fell,
            strides=upright.sum(0)[:, 0].astype(np.float64),
            absolute=np.where(upright, np.abs(averages), 0.0).sum(0),
            signed=np.where(upright, averages, 0.0).sum(0),
            returned=self._returned,
        )


class _GroundBelow:
    """Mean height of the ground under the trunk."""

    def __init__(self, robot: Robot, terrain: Terrain) -> None:
        self._terrain = terrain
        size = robot.geometry
        x, y = np.meshgrid([-size.hip_x, 0.0, size.hip_x], [-size.hip_y, 0.0, size.hip_y])
        self._offsets = np.stack([x.ravel(), y.ravel()], axis=-1)

    def height(self, position: Array) -> Array:
        """Mean height (B, 1) [m] around positions (B, 3) [m]."""
        spots = position[:, None, :2] + self._offsets
        return self._terrain.height(spots[..., 0], spots[..., 1]).mean(axis=1, keepdims=True)


def heading_velocity(state: BodyState, yaw: Array) -> Array:
    """Forward and leftward velocity [m/s] in the level frame that heads along `yaw` (B,), and yaw rate [rad/s]."""
    cosine, sine = np.cos(yaw), np.sin(yaw)
    x, y = state.linear_velocity[:, 0], state.linear_velocity[:, 1]
    return np.stack([cosine * x + sine * y, cosine * y - sine * x, state.angular_velocity[:, 2]], axis=-1)


def _moving_average(values: Array, window: int) -> Array:
    """Averages over `window` consecutive entries of the first axis; shorter by window - 1."""
    total = np.concatenate([np.zeros((1, *values.shape[1:])), np.cumsum(values, axis=0)])
    return (total[window:] - total[:-window]) / window
