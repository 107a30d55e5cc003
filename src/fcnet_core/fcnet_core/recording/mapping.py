"""A mapping: how the arrays of somebody else's rollout are called and meant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

from fcnet_core.recording.recording import RecordingError

# What a rollout may bring: the names that legged_gym's environments use for it.
LEGGED_GYM_KEYS = {
    "joint_position": "dof_pos",
    "joint_velocity": "dof_vel",
    "root_state": "root_states",
    "action": "actions",
    "target": "targets",
    "command": "commands",
    "done": "dones",
    "period": "dt",
    "joint_names": "dof_names",
    "default_position": "default_dof_pos",
    "action_scale": "action_scale",
    "position": "base_pos",
    "orientation": "base_quat",
    "linear_velocity": "base_lin_vel",
    "angular_velocity": "base_ang_vel",
}
AXES = ("time_env", "env_time")
QUATERNIONS = ("xyzw", "wxyz")
FRAMES = ("world", "body")
LARGEST_MAPPING = 1 << 18  # [B]


@dataclass(frozen=True)
class RolloutMapping:
    """How to read arrays that are (T, n) or, with several environments, (T, E, n) or (E, T, n).

    keys: what the file calls each entry of LEGGED_GYM_KEYS. joint_names, period [s], robot and action_scale stand in
    for what the file does not say. commands: setpoint fields by column, "" for a column to leave out. Targets that the
    file lacks are default_position + action_scale * action. velocity_frame is that of linear_velocity and
    angular_velocity where they are arrays of their own; those inside a root state are always the world's.
    """

    robot: str = ""
    keys: Mapping[str, str] = field(default_factory=lambda: dict(LEGGED_GYM_KEYS))
    joint_names: tuple[str, ...] = ()
    period: float | None = None
    env: int = 0
    axes: str = "time_env"
    commands: tuple[str, ...] = ("vx", "vy", "yaw_rate", "")
    action_scale: float | None = None
    default_position: Mapping[str, float] = field(default_factory=dict)
    quaternion: str = "xyzw"
    velocity_frame: str = "body"

    def __post_init__(self) -> None:
        for name, known in (("axes", AXES), ("quaternion", QUATERNIONS), ("velocity_frame", FRAMES)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} is {getattr(self, name)!r}; choose {' or '.join(known)}")
        if unknown := sorted(set(self.keys) - set(LEGGED_GYM_KEYS)):
            raise ValueError(f"keys has unknown entries {', '.join(unknown)}; known: {', '.join(LEGGED_GYM_KEYS)}")
        if self.env < 0:
            raise ValueError(f"env is {self.env}; environments count from 0")


def load_mapping(path: str | Path) -> RolloutMapping:
    """Read a mapping from YAML; what it leaves out is as in legged_gym. Raises RecordingError with one sentence."""
    path = Path(path)
    if not path.is_file() or path.stat().st_size > LARGEST_MAPPING:
        raise RecordingError(f"there is no mapping {path} of a reasonable size; give the path of a YAML file")
    try:
        entries = yaml.safe_load(path.read_text()) or {}
        if unknown := sorted(set(entries) - {entry.name for entry in fields(RolloutMapping)}):
            known = ", ".join(entry.name for entry in fields(RolloutMapping))
            raise ValueError(f"unknown entries {', '.join(map(str, unknown))}; known: {known}")
        return RolloutMapping(**_typed(entries))
    except (ValueError, TypeError, AttributeError, RecursionError, yaml.YAMLError) as error:
        raise RecordingError(f"mapping {path} cannot be used: {error}") from error


def _typed(entries: dict[str, Any]) -> dict[str, Any]:
    typed = dict(entries)
    if "keys" in typed:
        typed["keys"] = LEGGED_GYM_KEYS | {str(name): str(key) for name, key in typed["keys"].items()}
    for name in ("joint_names", "commands"):
        if name in typed:
            typed[name] = tuple("" if entry is None else str(entry) for entry in typed[name])
    for name in ("period", "action_scale"):
        if typed.get(name) is not None:
            typed[name] = float(typed[name])
    if "env" in typed:
        typed["env"] = int(typed["env"])
    if "default_position" in typed:
        typed["default_position"] = {str(joint): float(angle) for joint, angle in typed["default_position"].items()}
    return typed
