"""Signals that only a simulator knows, for a teacher or a critic: functions of a TrueState that return (B, n)."""

import numpy as np

from fcnet_core.arrays import Array
from quadruped_sim.tasks.view import TrueState

AROUND = np.array([(x, y) for x in (-0.12, 0.0, 0.12) for y in (-0.06, 0.06)])  # places around each foot [m]


def trunk_height(view: TrueState) -> Array:
    """Return the height (B, 1) [m] of the trunk over the ground."""
    return view.ground.height[:, None]


def feet_ground(view: TrueState, *, farthest: float) -> Array:
    """Return for each foot how far the ground at six places around it is below it, and its height, (B, 7 F) [m];
    values are clipped at `farthest`.
    """
    places = view.feet.place
    around = places[:, :, None, :2] + (AROUND @ view.heading)[:, None]
    below = places[..., 2:] - view.simulation.terrain.height(around[..., 0], around[..., 1])
    ground = np.concatenate([below, view.feet.height[..., None]], axis=-1)
    return np.clip(ground.reshape(len(ground), -1), -farthest, farthest)


def foot_speed(view: TrueState) -> Array:
    """Return the speeds (B, F) [m/s] of the feet."""
    return np.linalg.norm(view.feet.velocity, axis=-1)


def ground_slope(view: TrueState) -> Array:
    """Return the slope (B, 2) of the ground, rising forward and to the left."""
    return view.ground.slope


def vertical_velocity(view: TrueState) -> Array:
    """Return the vertical velocity (B, 1) [m/s]."""
    return view.velocity[:, 2:]
