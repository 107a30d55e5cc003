"""What people and planners want of the robot, as setpoints that grow stale."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from fcnet_core.robot import SETPOINT_FIELDS
from fcnet_core.rotation import roll_pitch_yaw

Array = npt.NDArray[np.float64]
VELOCITY = [SETPOINT_FIELDS.index(field) for field in ("vx", "vy", "yaw_rate")]
POSE = [SETPOINT_FIELDS.index(field) for field in ("height", "roll", "pitch")]
STYLE = [SETPOINT_FIELDS.index(field) for field in ("width", "clearance", "frequency")]
SHORTEST_QUATERNION = 0.5


class CommandSource:
    """The newest commands. A velocity older than `timeout` seconds counts as zero; a pose stays until changed.

    Written by callbacks and read by the control loop without a lock: every command is replaced as a whole.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._velocity = (0.0, 0.0, 0.0, float("-inf"))
        self._pose = (0.0, 0.0, 0.0)
        self._style = (0.0, 0.0, 0.0)

    def set_velocity(self, vx: float, vy: float, yaw_rate: float, now: float) -> str | None:
        """Take a velocity [m/s, m/s, rad/s] given at time `now` [s].

        A velocity that is not finite counts as zero; the sentence returned says so.
        """
        if all(map(math.isfinite, (vx, vy, yaw_rate))):
            self._velocity = (vx, vy, yaw_rate, now)
            return None
        self._velocity = (0.0, 0.0, 0.0, now)
        return f"cmd_vel ({vx}, {vy}, {yaw_rate}) is not finite and counts as zero; send finite numbers"

    def set_pose(self, height: float, orientation: tuple[float, float, float, float]) -> str | None:
        """Take a height offset [m] and an attitude x, y, z, w relative to the heading, of which roll and pitch count.

        A pose that cannot be one is ignored; the sentence returned says so.
        """
        length = math.hypot(*orientation)
        if not (math.isfinite(height) and math.isfinite(length) and length >= SHORTEST_QUATERNION):
            return "cmd_pose is ignored: its height must be finite and its orientation a unit quaternion"
        roll, pitch, _ = roll_pitch_yaw(np.array(orientation) / length)
        self._pose = (height, float(roll), float(pitch))
        return None

    def set_style(self, width: float, clearance: float, frequency: float) -> None:
        """Take offsets of stance width (as a fraction), foot clearance [m] and stride frequency [Hz]; all finite."""
        self._style = (width, clearance, frequency)

    def clear(self) -> None:
        """Forget velocity and pose."""
        self._velocity = (0.0, 0.0, 0.0, float("-inf"))
        self._pose = (0.0, 0.0, 0.0)

    def wanted(self, now: float) -> Array:
        """Setpoints (9,) in SETPOINT_FIELDS order at time `now`; ranges are the CommandShaper's business."""
        setpoint = np.zeros(len(SETPOINT_FIELDS))
        *velocity, given = self._velocity
        if now - given <= self._timeout:
            setpoint[VELOCITY] = velocity
        setpoint[POSE] = self._pose
        setpoint[STYLE] = self._style
        return setpoint
