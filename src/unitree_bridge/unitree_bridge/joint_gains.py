"""What a joint_gains message offers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fcnet_core.robot import JOINT_NAMES

Array = npt.NDArray[np.float64]


class UnreadableGainsError(ValueError):
    """Gains that cannot be read; the sentence says why."""


@dataclass(frozen=True)
class JointGains:
    """Stiffness kp [Nm/rad] and damping kd [Nms/rad], each (12,) in JOINT_NAMES order; whether a robot may have them is
    for its driver to judge.
    """

    kp: Array
    kd: Array


def read_gains(text: str) -> JointGains:
    """Read {"kp": {joint: stiffness}, "kd": {joint: damping}}. Raises UnreadableGainsError."""
    try:
        offered = json.loads(text)
        return JointGains(kp=_of_all_joints("kp", offered["kp"]), kd=_of_all_joints("kd", offered["kd"]))
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise UnreadableGainsError(
            f'joint_gains must be {{"kp": {{joint: value}}, "kd": {{joint: value}}}} as JSON, found {text[:80]!r}'
        ) from error


def _of_all_joints(what: str, values: dict[str, Any]) -> Array:
    if odd := sorted(set(values) ^ set(JOINT_NAMES)):
        raise UnreadableGainsError(f"joint_gains must give {what} for each joint once; look at {', '.join(odd)}")
    if not all(isinstance(value, (int, float)) for value in values.values()):
        raise UnreadableGainsError(f"joint_gains must give numbers for {what}, found {values}")
    return np.array([float(values[joint]) for joint in JOINT_NAMES])
