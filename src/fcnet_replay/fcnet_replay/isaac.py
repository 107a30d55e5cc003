"""Rollouts of other simulators as runs (docs/isaac_gym.md): .rollout files and the same frames sent by a live
simulation, and files of named arrays (npz, pt) with legged_gym's names or those of a mapping.

All numbers of a frame are little endian:

    magic 4 B | length u32 | payload, `length` B | CRC-32 (zlib's) u32 over everything before it

The first frame is the header: magic b"FCRH", payload JSON as in Header. A state's magic is b"FCRS"; its payload is one
row of Header.row_type. Files are not trusted: nothing is unpickled except by torch's weights_only, and large arrays are
rejected.
"""

import math
import struct
import zipfile
import zlib
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct, structs

from fcnet_core.errors import ReplayError
from fcnet_core.files import Positive, read_settings
from fcnet_core.robot import SETPOINT_FIELDS
from fcnet_core.rotation import GRAVITY, UNIT_TOLERANCE, matrix_from_xyzw, xyzw_from_wxyz
from fcnet_replay.bags.contents import Problem
from fcnet_replay.recording_notes import RecordingNotes
from fcnet_replay.run import ImuRecord, JointRecord, OdometryRecord, Run, SetpointRecord, TargetRecord

HEADER, STATE = b"FCRH", b"FCRS"
PREFIX, CHECKSUM = struct.Struct("<4sI"), struct.Struct("<I")
LARGEST = 1 << 27  # [B] of a file, 128 MiB: two and a half hours of 12 joints at 50 Hz
LONGEST_PAYLOAD = 65536
MOST_BROKEN = 10_000  # frames; bounds the time for a file
LONGEST_PERIOD = 0.1  # [s] a controller below 10 Hz cannot hold a legged robot
LONGEST_GAP = 0.2  # [s] or 1.5 periods; after a longer one the past is unknown, as in the controller
FIRST = 1  # bit of the flags: start of an episode
LARGEST_ARRAYS = 1 << 30  # [B] of all arrays in the file together, and of the rows made of them
UNPICKLED = (".pt", ".pth")  # by torch
REQUIRED = ("joint_position", "joint_velocity", "root_state")

Names = Annotated[tuple[Annotated[str, Meta(max_length=100)], ...], Meta(max_length=64)]
Numbers = npt.NDArray[Any]
RolloutRows = npt.NDArray[Any]  # (T,) of Header.row_type
Arrays = dict[str, Numbers]  # by name in the file


class Header(Struct, frozen=True, kw_only=True):
    """Facts of all rows: the robot's name or "", the control period [s], and the columns of joint arrays and commands;
    a command "" is left out.
    """

    robot: str = ""
    period: Annotated[float, Meta(gt=0, le=LONGEST_PERIOD)]
    joint_names: Names
    commands: Names
    format: Literal["fcnet rollout"] = "fcnet rollout"
    version: Literal[1] = 1

    def __post_init__(self) -> None:
        if not self.joint_names or len(set(self.joint_names)) < len(self.joint_names):
            raise ValueError("joint_names must be all joints in the recording's order, each once (docs/isaac_gym.md)")

    def row_type(self, number: str = "<f4") -> np.dtype[Any]:
        """Return the type of a row: one control period in Isaac Gym's conventions, the payload of a state frame.

        Joint arrays [rad, rad/s, -, rad] and commands have the columns of the header. The state is that before its
        action and target, which are NaN if unknown. root_state: position [m], orientation x, y, z, w, linear [m/s] and
        angular velocity [rad/s], in the world frame. time [s] grows by `period`.
        """
        joints, commands = (len(self.joint_names),), (len(self.commands),)
        return np.dtype(
            [
                ("step", "<u8"),
                ("time", "<f8"),
                ("episode", "<u4"),
                ("flags", "<u4"),
                ("joint_position", number, joints),
                ("joint_velocity", number, joints),
                ("root_state", number, (13,)),
                ("action", number, joints),
                ("target", number, joints),
                ("command", number, commands),
            ]
        )


def run_of_rows(
    header: Header, rows: RolloutRows, name: str, joint_names: tuple[str, ...] = (), damaged: tuple[Problem, ...] = ()
) -> Run:
    """Return the recorded run; `name`: of the recording in errors.

    joint_names: of the robot, by default those of the recorded robot's file, or the header's. The IMU's linear
    acceleration is that of an accelerometer: the change of the trunk's velocity, plus gravity. Raises ReplayError for
    missing joints and impossible values.
    """
    notes = RecordingNotes(robot=header.robot)
    joint_names = joint_names or notes.joint_names or header.joint_names
    if missing := [joint for joint in joint_names if joint not in header.joint_names]:
        named = f"it names {', '.join(header.joint_names)}, which must be all joints of the robot (docs/isaac_gym.md)"
        raise ReplayError(f"{name} lacks the joints {', '.join(missing)}; {named}")
    _check(rows, name)
    problems = list(damaged)
    if extra := [joint for joint in header.joint_names if joint not in joint_names]:
        problems.append(Problem("left_out", f"{name} has unknown joints, which are left out: {', '.join(extra)}"))
    setpoint = np.zeros((len(rows), len(SETPOINT_FIELDS)))
    for column, command in enumerate(header.commands):
        if command in SETPOINT_FIELDS:
            setpoint[:, SETPOINT_FIELDS.index(command)] = rows["command"][:, column]
        elif command:
            problems.append(Problem("left_out", f"{name} has an unknown command, which is left out: {command}"))
    time = rows["time"].astype(np.float64)
    gaps = np.diff(time) > max(LONGEST_GAP, 1.5 * header.period)
    if gaps.any():
        problems.append(Problem("gap", f"{name} has {int(gaps.sum())} gaps in time; memory starts cold after each"))
    starts = (rows["flags"] & FIRST).astype(bool) | np.append(False, gaps)
    order = [header.joint_names.index(joint) for joint in joint_names]
    of_joints = ("joint_position", "joint_velocity", "target")
    position, velocity, target = (rows[field].astype(np.float64)[:, order] for field in of_joints)
    place, orientation, linear, angular = np.split(rows["root_state"].astype(np.float64), (3, 7, 10), axis=1)
    orientation = orientation / np.linalg.norm(orientation, axis=1, keepdims=True)
    elapsed = np.diff(time, prepend=time[0] - header.period)
    acceleration = np.diff(linear, axis=0, prepend=linear[:1]) / elapsed[:, None]
    felt = np.where(starts[:, None], 0.0, acceleration) + np.array([0.0, 0.0, GRAVITY])
    # From the world frame into the trunk's.
    force, rate, speed = np.einsum("tji,vtj->vti", matrix_from_xyzw(orientation), np.stack([felt, angular, linear]))
    joints = JointRecord(time, time, position, velocity, np.full_like(position, np.nan))
    records = (joints, ImuRecord(time, time, orientation, rate, force), TargetRecord(time, time, target))
    setpoints = SetpointRecord(lambda: (time, setpoint))
    odometry = OdometryRecord(time, time, place, orientation, speed, rate)
    run = Run(joint_names, *records, setpoints, odometry, period=header.period, starts=time[starts])
    return replace(run, notes=notes, problems=tuple(problems))


def _check(rows: RolloutRows, name: str) -> None:
    if not len(rows):
        raise ReplayError(f"{name} holds no complete step; record again")
    for field in ("time", "joint_position", "joint_velocity", "root_state", "command"):
        finite = np.isfinite(rows[field]).reshape(len(rows), -1).all(axis=1)
        if not finite.all():
            what = f"has a {field.replace('_', ' ')} that is not finite in row {int(finite.argmin())}"
            how = "the simulation had failed there: record again, or cut the file before that row"
            raise ReplayError(f"{name} {what}; {how}")
    if not (advances := np.diff(rows["time"]) > 0).all():
        at = f"at row {int(advances.argmin()) + 1}"
        raise ReplayError(f"the time of {name} does not advance {at}; one file holds one recording")
    length = np.linalg.norm(rows["root_state"][:, 3:7], axis=1)
    if (wrong := np.abs(length - 1.0) > UNIT_TOLERANCE).any():
        what = f"row {int(wrong.argmax())} is no unit quaternion (its length is {length[wrong][0]:.3g})"
        raise ReplayError(f"the orientation of {name} in {what}; columns 3 to 6 of a root state are x, y, z, w")


def read_recording(path: str | Path, mapping: str | Path | None = None, joint_names: tuple[str, ...] = ()) -> Run:
    """Read a .rollout file, or an npz or pt file with legged_gym's names or those of a mapping (a YAML file).

    joint_names: of the robot, by default those of the recorded robot's file, or the recording's. Unpickles nothing.
    Raises ReplayError if the file is missing, damaged, too large, or has impossible values, and FcnetError if the
    mapping is unusable.
    """
    path = Path(path)
    if not path.is_file() or not path.stat().st_size:  # special files under /proc have no size, and may block
        raise ReplayError(f"there is no recording {path}, or it is empty; check the path")
    try:
        if path.suffix == ".rollout":
            return _read_rollout(path, joint_names)
        return _read_array_file(path, mapping, joint_names)
    except OSError as error:
        raise ReplayError(f"recording {path} cannot be read: {error.strerror or error}") from error


def _read_rollout(path: Path, joint_names: tuple[str, ...] = ()) -> Run:
    """Read a file, up to an incomplete last frame and without damaged frames; a problem gives the lost bytes.

    Raises ReplayError if the file is too large or has no usable rows, and OSError if it cannot be opened.
    """
    name, size = f"recording {path}", path.stat().st_size
    if size > LARGEST:
        raise ReplayError(f"{name} has {size} bytes, at most {LARGEST} are read; record in shorter pieces")
    content = path.read_bytes()
    magic, payload = frame_at(content, 0)
    if magic != HEADER:
        expected = "a file that rollout_writer.py wrote, or another kind of file by its suffix"
        raise ReplayError(f"{name} does not start with the header of a rollout; expected {expected}")
    header, place = parse_header(payload, name), PREFIX.size + len(payload) + CHECKSUM.size
    rows, lost, broken = bytearray(), len(content) - place, 0
    begin = PREFIX.pack(STATE, header.row_type().itemsize)  # all states have this size
    while (place := content.find(begin, place)) >= 0:
        _, payload = frame_at(content, place)
        frame_size = PREFIX.size + len(payload) + CHECKSUM.size if payload else 0
        rows += payload
        lost -= frame_size
        place += frame_size or 1
        broken += not frame_size
        if broken > MOST_BROKEN:
            raise ReplayError(f"{name} is damaged all over; restore it from another copy or record again")
    damaged = Problem("damaged", f"{lost} bytes of {path} are damaged or cut off and were left out; the rest is whole")
    return run_of_rows(header, np.frombuffer(rows, header.row_type()), name, joint_names, (damaged,) if lost else ())


def frame_at(content: bytes, place: int) -> tuple[bytes, bytes]:
    """Return magic and payload of the frame that starts at `place`; both empty without a whole frame."""
    if place + PREFIX.size > len(content):
        return b"", b""
    magic, length = PREFIX.unpack_from(content, place)
    begin, end = place + PREFIX.size, place + PREFIX.size + length
    if length > LONGEST_PAYLOAD or end + CHECKSUM.size > len(content):
        return b"", b""
    whole = zlib.crc32(content[place:end]) == CHECKSUM.unpack_from(content, end)[0]
    return (magic, content[begin:end]) if whole else (b"", b"")


def parse_header(payload: bytes, name: str) -> Header:
    """Read a header's JSON. Raises ReplayError if it has another format or version, or is malformed."""
    try:
        return msgspec.json.decode(payload, type=Header)
    except (ValueError, RecursionError) as error:
        raise ReplayError(f"{name} has a header that cannot be used ({error!s:.120}); record again") from error


def parse_state(payload: bytes, header: Header, name: str) -> RolloutRows:
    """Return the row (1,) of a payload. Raises ReplayError if its length does not match the header."""
    if len(payload) != header.row_type().itemsize:
        raise ReplayError(f"{name} has {len(payload)} bytes, its header implies {header.row_type().itemsize}")
    return np.frombuffer(payload, dtype=header.row_type())


class Keys(Struct, frozen=True, forbid_unknown_fields=True):
    """Names of the quantities in the file; the defaults are legged_gym's."""

    joint_position: str = "dof_pos"
    joint_velocity: str = "dof_vel"
    root_state: str = "root_states"
    target: str = "targets"
    command: str = "commands"
    done: str = "dones"
    period: str = "dt"
    joint_names: str = "dof_names"


class RolloutMapping(Struct, frozen=True, forbid_unknown_fields=True):
    """How to read arrays that are (T, n) or, with several environments, (T, E, n).

    joint_names, period [s] and robot replace those of the file. commands: setpoint fields by column, "" leaves a column
    out. quaternion: order of its numbers in a root state, whose velocities are in the world frame.
    """

    robot: str = ""
    keys: Keys = Keys()
    joint_names: tuple[str, ...] = ()
    period: Positive | None = None
    env: Annotated[int, Meta(ge=0, le=10**9)] = 0
    commands: tuple[str | None, ...] = ("vx", "vy", "yaw_rate", "")
    quaternion: Literal["xyzw", "wxyz"] = "xyzw"


def _read_array_file(path: Path, mapping: str | Path | None, joint_names: tuple[str, ...]) -> Run:
    """Read one environment; mapping: a YAML file, whose defaults are as in legged_gym.

    Raises as read_recording.
    """
    chosen = read_settings(mapping, RolloutMapping, "mapping") if mapping else RolloutMapping()
    name = f"recording {path}"
    if path.suffix not in (".npz", *UNPICKLED):
        raise ReplayError(f"{name} ends in {path.suffix!r}; expected .rollout, .npz, .pt or .pth")
    try:
        arrays = _read(path, set(structs.astuple(chosen.keys)))
    except ReplayError:
        raise
    except Exception as error:  # zipfile, NumPy and torch raise dozens of types for damage
        raise ReplayError(f"{name} is damaged or no {path.suffix} file ({error!s:.120}); record again") from error
    given = {"period": chosen.period, "joint_names": chosen.joint_names or None}
    arrays |= {getattr(chosen.keys, entry): np.asarray(it) for entry, it in given.items() if it is not None}
    with np.errstate(all="ignore"):  # run_of_rows rejects non-finite values
        return run_of_rows(*_rollout(arrays, chosen, name), name, joint_names)


def _read(path: Path, wanted: set[str]) -> Arrays:
    with zipfile.ZipFile(path) as archive:  # also the format of torch since version 1.6
        members = {info.filename.removesuffix(".npy"): info.file_size for info in archive.infolist()}
    unpickled = path.suffix in UNPICKLED
    _refuse_large(path, sum(size for name, size in members.items() if unpickled or name in wanted))
    if not unpickled:
        with np.load(path, allow_pickle=False) as file:
            return {name: np.asarray(file[name]) for name in wanted.intersection(members)}
    try:
        import torch
    except ImportError as error:
        raise ReplayError(f"reading {path} needs torch; install it, or save the rollout as npz") from error
    entries = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(entries, dict):
        raise ReplayError(f"recording {path} holds a {type(entries).__name__}, expected a dict of tensors by name")
    chosen = {name: value for name, value in entries.items() if name in wanted}
    tensors = {name: value.detach() for name, value in chosen.items() if isinstance(value, torch.Tensor)}
    _refuse_large(path, sum(tensor.nbytes for tensor in tensors.values()))  # they may claim more than is stored
    return {name: np.asarray(value) for name, value in (chosen | tensors).items()}


def _refuse_large(path: Path | str, size: int) -> None:
    if size > LARGEST_ARRAYS:
        most = f"at most {LARGEST_ARRAYS} are read; save a part of it"
        raise ReplayError(f"recording {path} would fill {size} bytes, {most}")


def _taken(arrays: Arrays, mapping: RolloutMapping, name: str, entry: str, *shape: int) -> Numbers:
    """Return an entry of Keys of one environment. Raises ReplayError if it is missing, not numeric, or has another
    shape than a given one.
    """
    key = getattr(mapping.keys, entry)
    if key not in arrays:
        raise ReplayError(f"{name} has no {key!r} ({entry.replace('_', ' ')}); give its name in a mapping")
    values = arrays[key]
    if values.ndim == 3 or (entry == "done" and values.ndim == 2):
        if mapping.env >= (count := values.shape[1]):
            raise ReplayError(f"{name} holds {count} environments, env {mapping.env} is none; count from 0")
        values = values[:, mapping.env]
    if values.dtype.kind not in "biuf" or (shape and values.shape != shape):
        found = f"has the type {values.dtype} and the shape {values.shape}"
        expected = f"numbers{f' of shape {shape}' if shape else ''}, or one more axis for the environments"
        raise ReplayError(f"{key!r} of {name} {found}; expected {expected}")
    return values


def _rollout(arrays: Arrays, mapping: RolloutMapping, name: str) -> tuple[Header, RolloutRows]:
    """Return the arrays as header and rows of a .rollout file; an episode starts after each row that is done."""
    take = partial(_taken, arrays, mapping, name)
    present = {entry for entry, key in structs.asdict(mapping.keys).items() if key in arrays}
    width = np.atleast_1d(take("command")).shape[-1] if "command" in present else 0
    unnamed = (f"command {column}" for column in range(len(mapping.commands), width))
    commands = [command or "" for command in (*mapping.commands, *unnamed)][:width]
    period = next(iter(take("period").ravel().tolist()), math.nan)
    try:
        names = arrays.get(mapping.keys.joint_names, np.empty(0)).ravel().astype(str).tolist()
        facts = {"robot": mapping.robot, "period": period, "joint_names": names, "commands": commands}
        header = msgspec.convert(facts, Header)
    except ValueError as error:
        raise ReplayError(f"{name} cannot be used: {error}; correct that in a mapping") from error
    steps, row_type = len(np.atleast_1d(take("joint_position"))), header.row_type("<f8")
    _refuse_large(name.removeprefix("recording "), steps * row_type.itemsize)
    rows = np.zeros(steps, row_type)
    rows["time"], rows["target"] = header.period * np.arange(steps), math.nan
    for entry in ("joint_position", "joint_velocity", "root_state", "target", "command"):
        if entry in present or entry in REQUIRED:
            rows[entry] = take(entry, steps, *row_type[entry].shape)
    if mapping.quaternion == "wxyz":
        rows["root_state"][:, 3:7] = xyzw_from_wxyz(rows["root_state"][:, 3:7])
    rows["flags"][:1] = FIRST
    if "done" in present:
        rows["flags"][1:] = FIRST * (take("done", steps)[:-1] != 0)
    return header, rows
