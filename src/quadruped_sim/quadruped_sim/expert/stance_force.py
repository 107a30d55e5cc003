"""Ground forces that correct the trunk's motion, shared out among the feet in stance."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

# What matters most when the feet cannot do everything: fx, fy, fz, roll, pitch, yaw moments.
WEIGHTS = np.array([1.0, 1.0, 2.0, 6.0, 6.0, 3.0])
REGULARISATION = 0.02


def share_forces(feet: Array, stance: Mask, wrench: Array, highest: float, friction: float) -> Array:
    """Forces (B, 4, 3) [N] on the feet (B, 4, 3) [m, from the trunk's centre] that give the wrench (B, 6) [N, Nm] in
    the least-squares sense; feet off the ground get none, others push with at most `highest` [N] within `friction`.
    """
    grip = _grasp(feet, stance) * WEIGHTS[:, None]
    square = grip @ grip.transpose(0, 2, 1) + REGULARISATION * np.eye(6)
    solution = np.linalg.solve(square, (wrench * WEIGHTS)[..., None])
    forces = (grip.transpose(0, 2, 1) @ solution)[..., 0].reshape(-1, 4, 3)
    forces[..., 2] = np.clip(forces[..., 2], 0.0, highest)
    cone = friction * forces[..., 2:3]
    forces[..., :2] = np.clip(forces[..., :2], -cone, cone)
    return forces


def _grasp(feet: Array, stance: Mask) -> Array:
    """Matrix (B, 6, 12) from the stance feet's forces to the wrench at the trunk."""
    batch = len(feet)
    on = stance.astype(np.float64)
    x, y, z = np.moveaxis(feet * on[..., None], -1, 0)
    grasp = np.zeros((batch, 6, 4, 3))
    for axis in range(3):
        grasp[:, axis, :, axis] = on
    grasp[:, 3, :, 1], grasp[:, 3, :, 2] = -z, y
    grasp[:, 4, :, 0], grasp[:, 4, :, 2] = z, -x
    grasp[:, 5, :, 0], grasp[:, 5, :, 1] = -y, x
    return grasp.reshape(batch, 6, 12)
