"""What a policy needs to know about the robot's present state."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class MeasuredState(Protocol):
    """Joints (12,) in JOINT_NAMES order [rad, rad/s]; orientation (4,) x, y, z, w; angular velocity (3,) [rad/s] in the
    body frame.
    """

    @property
    def joint_position(self) -> Array: ...

    @property
    def joint_velocity(self) -> Array: ...

    @property
    def orientation(self) -> Array: ...

    @property
    def angular_velocity(self) -> Array: ...
