"""The newest measured state of the robot, with its age, its joints in JOINT_NAMES order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fcnet_core.robot import JOINT_NAMES

Array = npt.NDArray[np.float64]
NEVER = float("-inf")
UNIT_TOLERANCE = 0.1  # a quaternion whose length is further from 1 is no orientation


class StateBuffer:
    """Joint state and IMU as last stored. Times are seconds of one monotonic clock.

    joint_position (12,) [rad], joint_velocity (12,) [rad/s], orientation (4,) x, y, z, w, angular_velocity (3,)
    [rad/s] in the body frame. They are meaningful only while `problem` returns None. The stamps are the senders' own
    time [s].
    """

    def __init__(self, timeout: float) -> None:
        self.joint_position: Array = np.zeros(len(JOINT_NAMES))
        self.joint_velocity: Array = np.zeros(len(JOINT_NAMES))
        self.orientation: Array = np.array([0.0, 0.0, 0.0, 1.0])
        self.angular_velocity: Array = np.zeros(3)
        self.joints_received = NEVER
        self.imu_received = NEVER
        self.joints_stamp = 0.0
        self.imu_stamp = 0.0
        self._timeout = timeout
        self._learn([])
        self._wrong_joints = ""

    @property
    def received(self) -> float:
        """When the older of the two parts was received."""
        return min(self.joints_received, self.imu_received)

    def store_joints(
        self,
        names: Sequence[str],
        position: Sequence[float],
        velocity: Sequence[float],
        received: float,
        stamp: float = 0.0,
    ) -> None:
        """Take joint positions [rad] and velocities [rad/s] of joints named in any order; further joints are ignored.

        A message that does not fit is remembered as a problem and changes no value.
        """
        self.joints_received = received
        if names != self._names:
            self._learn(list(names))
        self._wrong_joints = self._misfit(len(position), len(velocity))
        if not self._wrong_joints:
            self.joint_position[:] = np.asarray(position)[self._order]
            self.joint_velocity[:] = np.asarray(velocity)[self._order]
            self.joints_stamp = stamp

    def store_imu(
        self,
        orientation: Sequence[float],
        angular_velocity: Sequence[float],
        received: float,
        stamp: float = 0.0,
    ) -> None:
        """Take an orientation x, y, z, w and an angular velocity [rad/s] in the body frame."""
        self.imu_received = received
        self.imu_stamp = stamp
        self.orientation[:] = orientation
        self.angular_velocity[:] = angular_velocity

    def problem(self, now: float) -> str | None:
        """Why this state must not be used at time `now`, in words; None when it may."""
        for topic, received in (("joint_states", self.joints_received), ("imu/data", self.imu_received)):
            if received == NEVER:
                return f"no message on {topic} yet; start the robot's bridge or the simulator"
            if now - received > self._timeout:
                return f"{topic} is {now - received:.2f} s old, the limit is {self._timeout:g} s; check the bridge"
        return self._wrong_joints or self._not_finite() or self._no_orientation()

    def _learn(self, names: list[str]) -> None:
        self._names = names
        self._order = [names.index(name) for name in JOINT_NAMES if name in names]
        missing = [name for name in JOINT_NAMES if name not in names]
        self._misnamed = f"joint_states lacks {', '.join(missing)}; it names {', '.join(names)}" if missing else ""

    def _misfit(self, positions: int, velocities: int) -> str:
        if self._misnamed:
            return self._misnamed
        for what, count in (("positions", positions), ("velocities", velocities)):
            if count != len(self._names):
                return f"joint_states carries {count} {what} for {len(self._names)} names; publish one for each joint"
        return ""

    def _not_finite(self) -> str | None:
        for what, values in (("position", self.joint_position), ("velocity", self.joint_velocity)):
            finite = np.isfinite(values)
            if not finite.all():
                return f"joint_states: the {what} of {JOINT_NAMES[int(finite.argmin())]} is not a finite number"
        return None

    def _no_orientation(self) -> str | None:
        if not np.isfinite(self.angular_velocity).all():
            return "imu/data: the angular velocity is not a finite number"
        length = float(np.linalg.norm(self.orientation))
        if not abs(length - 1.0) <= UNIT_TOLERANCE:
            return f"imu/data: the orientation is no unit quaternion (its length is {length:.3g})"
        return None
