"""The 70-dimensional observation, assembled here for simulator, training, controller and replay alike.

Order (paper, appendix C.3): projected gravity 3, joint velocity 12, sine and cosine of the joint positions 12 + 12,
body angular velocity 3, last action 12, command 16.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fcnet_core.rotation import projected_gravity

OBSERVATION_SIZE = 70
ACTION_SIZE = 12
LAYOUT = {
    "projected_gravity": slice(0, 3),
    "joint_velocity": slice(3, 15),
    "sin_joint_position": slice(15, 27),
    "cos_joint_position": slice(27, 39),
    "angular_velocity": slice(39, 42),
    "last_action": slice(42, 54),
    "command": slice(54, 70),
}


def assemble_observation(
    orientation: npt.ArrayLike,
    angular_velocity: npt.ArrayLike,
    joint_position: npt.ArrayLike,
    joint_velocity: npt.ArrayLike,
    last_action: npt.ArrayLike,
    command: npt.ArrayLike,
) -> npt.NDArray[np.float32]:
    """Observations (..., 70) from body orientation (..., 4) x, y, z, w; angular velocity (..., 3) [rad/s] in the body
    frame; joint positions and velocities (..., 12) [rad, rad/s]; the last position targets sent (..., 12) [rad]; and
    commands (..., 16). Joints follow JOINT_NAMES.
    """
    parts = (
        projected_gravity(orientation),
        joint_velocity,
        np.sin(joint_position),
        np.cos(joint_position),
        angular_velocity,
        last_action,
        command,
    )
    return np.concatenate(parts, axis=-1).astype(np.float32)
