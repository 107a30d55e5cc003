"""Joint targets and gains as messages: joint_trajectory and joint_gains."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from rclpy.node import Node
from trajectory_msgs.msg import JointTrajectory

from fcnet_core.arrays import Array
from fcnet_core.limiter import JointCommand, RefusedCommandError, joint_command
from fcnet_core.robot import JOINT_NAMES
from fcnet_ros.topics import JOINT_TRAJECTORY, PolledSubscription


def read_trajectory(message: JointTrajectory) -> JointCommand:
    """Read the message's one point. Raises RefusedCommandError for one that no robot should follow."""
    if len(message.points) != 1:
        raise RefusedCommandError(f"joint_trajectory has {len(message.points)} points; send exactly one")
    point = message.points[0]
    return joint_command(message.joint_names, point.positions, point.velocities, point.effort)


class TargetReceiver:
    """The newest command on joint_trajectory, for one thread."""

    def __init__(self, node: Node) -> None:
        self._subscription = PolledSubscription(node, JOINT_TRAJECTORY)

    def take(self) -> JointCommand | None:
        """Return the command that arrived since the last call, or None. Raises RefusedCommandError."""
        taken = self._subscription.take()
        return None if taken is None else read_trajectory(taken[0])

    def destroy(self, node: Node) -> None:
        """Stop receiving."""
        self._subscription.destroy(node)


def write_gains(joint_names: Sequence[str], kp: Sequence[float], kd: Sequence[float]) -> str:
    """Return the text of a joint_gains message: {"kp": {joint: [Nm/rad]}, "kd": {joint: [Nms/rad]}} as JSON."""
    return json.dumps({"kp": dict(zip(joint_names, kp, strict=True)), "kd": dict(zip(joint_names, kd, strict=True))})


def read_gains(text: str) -> tuple[Array, Array]:
    """Read stiffness kp [Nm/rad] and damping kd [Nms/rad], each (12,) in JOINT_NAMES order, from such a text.

    Raises ValueError with a sentence. Whether a robot may have them is checked by its driver.
    """
    try:
        offered = json.loads(text)
        return _of_all_joints("kp", offered["kp"]), _of_all_joints("kd", offered["kd"])
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(
            f'joint_gains must be {{"kp": {{joint: value}}, "kd": {{joint: value}}}} as JSON, found {text[:80]!r}'
        ) from error


def _of_all_joints(what: str, values: dict[str, Any]) -> Array:
    if odd := sorted(set(values) ^ set(JOINT_NAMES)):
        raise ValueError(f"joint_gains must give {what} for each joint once; look at {', '.join(odd)}")
    if not all(isinstance(value, (int, float)) for value in values.values()):
        raise ValueError(f"joint_gains must give numbers for {what}, found {values}")
    return np.array([float(values[joint]) for joint in JOINT_NAMES])
