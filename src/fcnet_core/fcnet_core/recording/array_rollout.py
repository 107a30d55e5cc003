"""Turns the named arrays of somebody else's rollout into columns, as a mapping says."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fcnet_core.recording.array_files import Arrays
from fcnet_core.recording.columns import RolloutColumns
from fcnet_core.recording.mapping import RolloutMapping
from fcnet_core.recording.recording import RecordingError, joint_order
from fcnet_core.rotation import matrix_from_xyzw, xyzw_from_wxyz

Array = npt.NDArray[np.float64]
MOST_ROWS = 4_000_000  # 22 hours at 50 Hz


def columns_from_arrays(arrays: Arrays, mapping: RolloutMapping, name: str) -> RolloutColumns:
    """Columns of environment mapping.env; `name` is what error sentences call the file. Raises RecordingError."""
    source = _Source(arrays, mapping, name)
    joint_position = source.rows("joint_position")
    steps = len(joint_position)
    joint_names = source.joint_names()
    joint_order(joint_names, name)
    period = source.period()
    command = source.rows("command") if source.has("command") else np.zeros((steps, 0))
    fields = (*mapping.commands, *[f"command {column}" for column in range(len(mapping.commands), command.shape[1])])
    kept = [column for column in range(command.shape[1]) if fields[column]]
    return RolloutColumns(
        robot=mapping.robot,
        joint_names=joint_names,
        command_names=tuple(fields[column] for column in kept),
        period=period,
        time=np.asarray(np.arange(steps) * period, dtype=np.float64),
        first=_first(source, steps),
        joint_position=joint_position,
        joint_velocity=source.rows("joint_velocity"),
        root_state=_root_state(source),
        target=_target(source, joint_names, joint_position.shape),
        command=command[:, kept],
    )


class _Source:
    """The arrays of one environment, by the suite's names for them."""

    def __init__(self, arrays: Arrays, mapping: RolloutMapping, name: str) -> None:
        self.arrays = arrays
        self.mapping = mapping
        self.name = name

    def has(self, entry: str) -> bool:
        return self.mapping.keys[entry] in self.arrays

    def raw(self, entry: str) -> np.ndarray[Any, Any]:
        key = self.mapping.keys[entry]
        if key not in self.arrays:
            raise RecordingError(
                f"{self.name} has no {key!r} ({entry.replace('_', ' ')}); say in a mapping what it is called there"
            )
        return self.arrays[key]

    def numbers(self, entry: str) -> Array:
        raw = self.raw(entry)
        if raw.dtype.kind not in "biuf":
            raise RecordingError(f"{self.mapping.keys[entry]!r} of {self.name} is {raw.dtype}; expected numbers")
        return raw.astype(np.float64)

    def rows(self, entry: str) -> Array:
        """An entry as (T, n)."""
        raw = self.raw(entry)
        if raw.ndim == 3:
            axis = 1 if self.mapping.axes == "time_env" else 0
            raw = raw.take(self._env(raw.shape[axis]), axis=axis)
        if raw.ndim != 2 or len(raw) > MOST_ROWS or raw.dtype.kind not in "biuf":
            raise RecordingError(
                f"{self.mapping.keys[entry]!r} of {self.name} is {raw.dtype} of shape {raw.shape}; "
                "expected numbers (steps, values), or three axes with the environments"
            )
        return raw.astype(np.float64)

    def flags(self, entry: str, steps: int) -> npt.NDArray[np.bool_]:
        """An entry as (T,): one flag per step, and per environment where there are several."""
        raw: np.ndarray[Any, Any] = self.numbers(entry)
        raw = raw[..., 0] if raw.ndim == 3 else raw
        if raw.ndim == 2:
            axis = 1 if self.mapping.axes == "time_env" else 0
            raw = raw.take(self._env(raw.shape[axis]), axis=axis)
        if raw.shape != (steps,):
            raise RecordingError(
                f"{self.mapping.keys[entry]!r} of {self.name} has shape {raw.shape}; expected one flag for each of "
                f"{steps} steps"
            )
        return raw != 0

    def joint_names(self) -> tuple[str, ...]:
        if self.mapping.joint_names or not self.has("joint_names"):
            return self.mapping.joint_names
        raw = self.raw("joint_names").ravel()
        return tuple(name.decode() if isinstance(name, bytes) else str(name) for name in raw[:100].tolist())

    def period(self) -> float:
        if self.mapping.period is not None:
            return self.mapping.period
        return float(self.numbers("period").ravel()[0]) if self.numbers("period").size else float("nan")

    def _env(self, count: int) -> int:
        if self.mapping.env >= count:
            raise RecordingError(
                f"{self.name} holds {count} environments, and env {self.mapping.env} is none of them; they count from 0"
            )
        return self.mapping.env


def _root_state(source: _Source) -> Array:
    if source.has("root_state"):
        root = source.rows("root_state").copy()
        if root.shape[1] != 13:
            raise RecordingError(f"the root states of {source.name} have {root.shape[1]} columns; expected 13")
        root[:, 3:7] = _xyzw(source, root[:, 3:7])
        return root
    parts = [source.rows(part) for part in ("position", "orientation", "linear_velocity", "angular_velocity")]
    if [part.shape for part in parts] != [(len(parts[0]), width) for width in (3, 4, 3, 3)]:
        raise RecordingError(f"position, orientation and velocities of {source.name} do not have 3, 4, 3 and 3 columns")
    parts[1] = _xyzw(source, parts[1])
    if source.mapping.velocity_frame == "body":
        world_from_body = matrix_from_xyzw(parts[1])
        parts[2:] = [np.einsum("...ij,...j->...i", world_from_body, part) for part in parts[2:]]
    return np.concatenate(parts, axis=1)


def _xyzw(source: _Source, quaternion: Array) -> Array:
    return quaternion if source.mapping.quaternion == "xyzw" else xyzw_from_wxyz(quaternion)


def _target(source: _Source, joint_names: tuple[str, ...], shape: tuple[int, ...]) -> Array:
    """The targets there are, or what the actions ask for, or NaN."""
    if source.has("target"):
        return source.rows("target")
    scale = source.mapping.action_scale
    if scale is None and source.has("action_scale") and (found := source.numbers("action_scale")).size == 1:
        scale = float(found.ravel()[0])
    if scale is None or not source.has("action"):
        return np.full(shape, np.nan)
    return scale * source.rows("action") + _default_position(source, joint_names)


def _default_position(source: _Source, joint_names: tuple[str, ...]) -> Array:
    given = source.mapping.default_position
    if given:
        if missing := [joint for joint in joint_names if joint not in given]:
            raise RecordingError(f"the mapping's default_position lacks {', '.join(missing)}")
        return np.array([given[joint] for joint in joint_names])
    position = source.numbers("default_position").ravel()
    if position.shape != (len(joint_names),):
        raise RecordingError(f"{source.name} has {len(position)} default positions for {len(joint_names)} joints")
    return position


def _first(source: _Source, steps: int) -> npt.NDArray[np.bool_]:
    """An episode begins with the first row and with each row after one that is done."""
    first = np.zeros(steps, dtype=bool)
    first[:1] = True
    if source.has("done"):
        first[1:] = source.flags("done", steps)[:-1]
    return first
