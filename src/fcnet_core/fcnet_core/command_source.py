"""What one person or program wants of the robot; commands grow stale."""

from __future__ import annotations

import math

import numpy as np

from fcnet_core.rotation import roll_pitch_yaw

SHORTEST_QUATERNION = 0.5
NEVER = float("-inf")
STILL = (0.0, 0.0, 0.0)


class CommandSource:
    """The newest commands of one source; `higher` are those that are heard before it.

    It is active until its newest command is older than `timeout` seconds. Written by callbacks and read by the control
    loop without a lock: every command is replaced as a whole.
    """

    def __init__(self, name: str, timeout: float, higher: tuple[CommandSource, ...] = ()) -> None:
        self.name = name
        self._timeout = timeout
        self._higher = higher
        self.clear()

    def clear(self) -> None:
        """Forget what it has said."""
        self._velocity = (*STILL, NEVER)
        self._pose = (*STILL, NEVER)

    def set_velocity(self, vx: float, vy: float, yaw_rate: float, now: float) -> str | None:
        """Take a velocity [m/s, m/s, rad/s] given at time `now` [s].

        A velocity that is not finite counts as zero; the sentence returned says so.
        """
        if all(map(math.isfinite, (vx, vy, yaw_rate))):
            self._velocity = (vx, vy, yaw_rate, now)
            return None
        self._velocity = (*STILL, now)
        return f"velocity ({vx}, {vy}, {yaw_rate}) of {self.name} is not finite and counts as zero; send finite numbers"

    def set_pose(self, height: float, orientation: tuple[float, float, float, float], now: float) -> str | None:
        """Take a height offset [m] and an attitude x, y, z, w relative to the heading, of which roll and pitch count.

        It is lost while a higher source is active. A pose that cannot be one is ignored; the sentence returned says so.
        """
        length = math.hypot(*orientation)
        if not (math.isfinite(height) and math.isfinite(length) and length >= SHORTEST_QUATERNION):
            return f"the pose of {self.name} is ignored: height must be finite and orientation a unit quaternion"
        if not any(source.is_active(now) for source in self._higher):
            roll, pitch, _ = roll_pitch_yaw(np.array(orientation) / length)
            self._pose = (height, float(roll), float(pitch), now)
        return None

    def is_active(self, now: float) -> bool:
        """Whether it has said something that still counts at time `now` [s]."""
        return now - max(self._velocity[3], self._pose[3]) <= self._timeout

    def velocity(self, now: float) -> tuple[float, float, float]:
        """Vx [m/s], vy [m/s], yaw rate [rad/s] that count at time `now` [s]: zero where they are stale."""
        vx, vy, yaw_rate, given = self._velocity
        return (vx, vy, yaw_rate) if now - given <= self._timeout else STILL

    @property
    def pose(self) -> tuple[float, float, float, float]:
        """Height [m], roll, pitch [rad] of its last pose and the time [s] when it was given."""
        return self._pose
