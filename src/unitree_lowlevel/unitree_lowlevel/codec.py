"""Commands and states of a motor board, and the datagrams of Unitree's low level that carry them.

Values are in SI units. Datagrams are little-endian and packed. Sources: the vendor's unitree_legged_sdk, releases 3.2
to 3.3.4 and 3.8.2, 3.8.4 (A1, Aliengo) and 3.8.0 to 3.8.6 (Go1), and the bytes that its libraries send.
"""

import math
import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array
from fcnet_core.errors import WireError
from fcnet_core.names import BUTTONS
from fcnet_core.observation import SensorReading
from fcnet_core.rotation import xyzw_from_wxyz

LOW_LEVEL = 0xFF  # levelFlag of commands to motors
PERIOD = 0.002  # [s] of the motor board's own loop, and so of commands and states
SERVO = 0x0A  # motor modes of the vendor
OFF = 0x00
# The joints of the motors in the order on the wire, by the names in the vendor's URDFs. The wire has 20 motors; the
# others stay zero, which is motor mode OFF.
JOINTS = tuple(f"{leg}_{joint}_joint" for leg in ("FR", "FL", "RR", "RL") for joint in ("hip", "thigh", "calf"))
MOTORS = len(JOINTS)
POSITION_STOP = 2.146e9  # [rad] the vendor's "no position control"
VELOCITY_STOP = 16000.0  # [rad/s] the vendor's "no velocity control"

REMOTE_BYTES = 40
STICKS = ("lx", "ly", "rx", "ry", "L2")
_REMOTE_LAYOUT = struct.Struct("<2xH5f16x")  # two bytes of head, buttons from bit 0 on, lx, rx, ry, L2, ly


@dataclass(frozen=True)
class LowCommand:
    """One command to the 12 joint motors, arrays (12,) in the order of JOINTS.

    A motor's torque is torque + stiffness (position - q) + damping (velocity - dq).
    mode: motor mode, SERVO or OFF; position [rad]; velocity [rad/s]; torque [Nm], feed-forward; stiffness [Nm/rad];
    damping [Nms/rad].
    """

    mode: npt.NDArray[np.uint8]
    position: Array
    velocity: Array
    torque: Array
    stiffness: Array
    damping: Array


def damping_command(damping: Array) -> LowCommand:
    """Return the command without stiffness, with this damping (12,) [Nms/rad]."""
    servo, zeros = np.full(MOTORS, SERVO, dtype=np.uint8), np.zeros(MOTORS)
    return LowCommand(servo, np.full(MOTORS, POSITION_STOP), zeros, zeros, zeros, damping)


@dataclass(frozen=True)
class LowState(SensorReading):
    """One state of the robot. torque is the board's estimate; further joint arrays (12,) in the order of JOINTS.

    mode: motor modes; temperature of the motors [deg C]; imu_temperature [deg C]; foot_force (4,), FR FL RR RL, in the
    vendor's units; tick: the board's own time, in its own unit; remote: REMOTE_BYTES of the wireless remote; identity:
    the header's (commVersion, robotID) or the two version words in their place; level: the header's levelFlag.
    """

    mode: npt.NDArray[np.uint8]
    temperature: Array
    imu_temperature: float
    foot_force: Array
    tick: int
    remote: bytes
    identity: tuple[int, ...]
    level: int = LOW_LEVEL


@dataclass(frozen=True)
class RemoteState:
    """Pressed buttons (names of BUTTONS); deflection of left and right stick to the right (x) and forward (y), -1 to 1;
    and of the trigger L2.
    """

    buttons: frozenset[str] = frozenset()
    lx: float = 0.0
    ly: float = 0.0
    rx: float = 0.0
    ry: float = 0.0
    L2: float = 0.0


def decode_remote(remote: bytes) -> RemoteState:
    """Return the state of the remote. 40 zeros, and input of another length, are a remote at rest.

    Does not raise: a non-finite axis becomes 0, other values are clipped to -1 to 1.
    """
    if len(remote) != REMOTE_BYTES:
        return RemoteState()
    bits, *axes = _REMOTE_LAYOUT.unpack(remote)
    pressed = frozenset(name for bit, name in enumerate(BUTTONS) if bits >> bit & 1)
    lx, rx, ry, l2, ly = (max(-1.0, min(1.0, axis)) if math.isfinite(axis) else 0.0 for axis in axes)
    return RemoteState(pressed, lx, ly, rx, ry, l2)


def encode_remote(remote: RemoteState) -> bytes:
    """Return the 40 bytes of a remote, with a head of zeros."""
    bits = sum(1 << bit for bit, name in enumerate(BUTTONS) if name in remote.buttons)
    return _REMOTE_LAYOUT.pack(bits, remote.lx, remote.rx, remote.ry, remote.L2, remote.ly)


_MOTOR_COMMAND = np.dtype(
    [
        ("mode", "u1"),
        ("position", "<f4"),
        ("velocity", "<f4"),
        ("torque", "<i2"),  # in 1/256 Nm
        ("stiffness", "<u2"),  # in 1/32 Nm/rad
        ("damping", "<u2"),  # in 1/16 Nms/rad
        ("reserve", "<u4", 3),
    ]
)
_MOTOR_STATE = np.dtype(
    [
        ("mode", "u1"),
        ("position", "<f4"),
        ("velocity", "<f4"),
        ("acceleration", "<i2"),
        ("torque", "<i2"),  # in 1/256 Nm
        ("raw_position", "<f4"),
        ("raw_velocity", "<f4"),
        ("raw_acceleration", "<i2"),
        ("temperature", "i1"),
        ("reserve", "<u4", 2),
    ]
)
_IMU = [
    ("quaternion", "<f4", 4),  # w, x, y, z
    ("angular_velocity", "<f4", 3),
    ("linear_acceleration", "<f4", 3),
    ("roll_pitch_yaw", "<f4", 3),
    ("imu_temperature", "i1"),
]
_FEET = [("foot_force", "<i2", 4), ("foot_force_estimate", "<i2", 4), ("tick", "<u4")]
_END = [("remote", "u1", 40), ("reserve", "<u4"), ("checksum", "<u4")]

_HEADER_33 = [("level", "u1"), ("identity", "<u2", 2), ("sequence", "<u4"), ("bandwidth", "u1")]
_HEADER_38 = [
    ("head", "u1", 2),
    ("level", "u1"),
    ("frame_reserve", "u1"),
    ("sequence", "<u4", 2),
    ("identity", "<u4", 2),
    ("bandwidth", "<u2"),
]


@dataclass(frozen=True)
class Generation:
    """One generation of the wire format.

    command and state are packed dtypes of whole datagrams; `identity` in them is commVersion and robotID (gen33) or
    the two version words (gen38). head: the bytes that open every datagram, if any. The checksum, always the last
    four bytes, covers the whole 32-bit words before it.
    """

    name: str
    head: bytes
    command: np.dtype[np.void]
    state: np.dtype[np.void]


GEN33 = Generation(
    "gen33",
    b"",
    np.dtype([*_HEADER_33, ("motors", _MOTOR_COMMAND, 20), ("led", "u1", 12), *_END]),
    np.dtype([*_HEADER_33, *_IMU, ("motors", _MOTOR_STATE, 20), *_FEET, *_END]),
)
GEN38 = Generation(
    "gen38",
    b"\xfe\xef",
    np.dtype([*_HEADER_38, ("motors", _MOTOR_COMMAND, 20), ("battery", "u1", 4), *_END]),
    np.dtype([*_HEADER_38, *_IMU, ("motors", _MOTOR_STATE, 20), ("battery", "u1", 24), *_FEET, *_END]),
)
GENERATIONS = {generation.name: generation for generation in (GEN33, GEN38)}
_SIZES = {layout.itemsize: each.name for each in GENERATIONS.values() for layout in (each.command, each.state)}

_COMMAND_FIELDS = ("position", "velocity", "torque", "stiffness", "damping")
# Steps of a command's fields on the wire, per SI unit; position and velocity are single precision numbers.
STEPS = np.array([[1], [1], [256], [32], [16]], dtype=np.float32)
DAMPING_STEP = 1.0 / float(STEPS[4, 0])  # [Nms/rad]
_LOWEST = np.array([[-32768], [0], [0]], dtype=np.float32) / STEPS[2:]
_HIGHEST = np.float32(32767) / STEPS[2:]
_INT16, _INT8 = (-32768, 32767), (-128, 127)
_REVERSED_BITS = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def encode_command(generation: Generation, command: LowCommand) -> bytes:
    """Return the datagram of a command: within the wire's range the same bytes as the vendor's library, see
    wire_values.

    Raises WireError "not_finite" for NaN and for values beyond single precision.
    """
    values = wire_values(command)
    record = _blank(generation, generation.command)
    motors = record["motors"][0, :MOTORS]
    motors["mode"] = command.mode
    for field, row in zip(_COMMAND_FIELDS, values, strict=True):
        motors[field] = row
    return sealed(record.tobytes())


def decode_command(generation: Generation, datagram: bytes) -> LowCommand:
    """Return the command in a datagram, for the board's side.

    Raises WireError for a wrong size, head, checksum or level and for NaN or infinity.
    """
    record = _opened(generation, generation.command, datagram)
    if (level := int(record["level"][0])) != LOW_LEVEL:
        raise WireError("level", f"a command to motors has level {LOW_LEVEL:#x}, this one {level:#x}")
    motors = record["motors"][0, :MOTORS]
    finite_values("a command holds a position or velocity", motors["position"], motors["velocity"])
    rows = (motors[field].astype(np.float64) / step for field, step in zip(_COMMAND_FIELDS, STEPS[:, 0], strict=True))
    return LowCommand(motors["mode"].copy(), *rows)


def decode_state(generation: Generation, datagram: bytes) -> LowState:
    """Return the state in a datagram.

    Raises WireError for a wrong size, head or checksum and for a position, velocity or IMU value that is not finite.
    Any level is accepted, as in the vendor's library.
    """
    record = _opened(generation, generation.state, datagram)[0]
    motors = record["motors"][:MOTORS]
    imu = (record["quaternion"], record["angular_velocity"], record["linear_acceleration"])
    values = finite_values("a state holds a joint or IMU value", motors["position"], motors["velocity"], *imu)
    imu_values = values[2 * MOTORS :]
    return LowState(
        mode=motors["mode"].copy(),
        position=values[:MOTORS],
        velocity=values[MOTORS : 2 * MOTORS],
        torque=motors["torque"] / 256,
        temperature=motors["temperature"].astype(np.float64),
        orientation=xyzw_from_wxyz(imu_values[:4]),
        angular_velocity=imu_values[4:7],
        linear_acceleration=imu_values[7:],
        imu_temperature=float(record["imu_temperature"]),
        foot_force=record["foot_force"].astype(np.float64),
        tick=int(record["tick"]),
        remote=record["remote"].tobytes(),
        identity=tuple(record["identity"].tolist()),
        level=int(record["level"]),
    )


def encode_state(generation: Generation, state: LowState) -> bytes:
    """Return the datagram of a state; values beyond the wire's range are clipped."""
    record = _blank(generation, generation.state)
    record["level"], record["identity"][0] = state.level, state.identity
    record["quaternion"][0] = np.roll(state.orientation, 1)
    record["angular_velocity"][0] = state.angular_velocity
    record["linear_acceleration"][0] = state.linear_acceleration
    record["imu_temperature"][0] = np.clip(state.imu_temperature, *_INT8)
    record["foot_force"][0] = np.clip(state.foot_force, *_INT16)
    record["tick"][0] = state.tick % 2**32
    record["remote"][0] = np.frombuffer(state.remote, dtype=np.uint8)
    motors = record["motors"][0, :MOTORS]
    motors["mode"] = state.mode
    motors["position"] = motors["raw_position"] = state.position
    motors["velocity"] = motors["raw_velocity"] = state.velocity
    motors["torque"] = np.clip(np.asarray(state.torque) * 256, *_INT16)
    motors["temperature"] = np.clip(state.temperature, *_INT8)
    return sealed(record.tobytes())


def wire_values(command: LowCommand) -> npt.NDArray[np.float32]:
    """Return rows position, velocity, torque, stiffness, damping (5, 12), the last three in whole STEPS.

    Values are truncated towards zero as in the vendor's library. Beyond the wire's range (-128 <= torque < 128 Nm,
    0 <= stiffness < 1024 Nm/rad, 0 <= damping < 2048 Nms/rad) they are clipped, while the library wraps around.
    Raises WireError "not_finite" for NaN and for values beyond single precision.
    """
    rows = [command.position, command.velocity, command.torque, command.stiffness, command.damping]
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.array(rows, dtype=np.float32)
    finite = np.isfinite(values)
    if not finite.all():
        name = _COMMAND_FIELDS[int(np.flatnonzero(~finite.all(axis=1))[0])]
        raise WireError("not_finite", f"a command's {name} is not a finite number: it was not sent")
    values[2:] = np.trunc(np.clip(values[2:], _LOWEST, _HIGHEST) * STEPS[2:])
    return values


def finite_values(what: str, *parts: npt.NDArray[Any]) -> Array:
    """Return all parts in one array; raises WireError "not_finite" for NaN and infinity, starting with `what`."""
    values = np.concatenate(parts)
    if not np.isfinite(values).all():
        raise WireError("not_finite", f"{what} that is not a finite number")
    return values.astype(np.float64)  # not earlier: the cast of a signalling NaN warns


def checksum(datagram: bytes) -> int:
    """Return the checksum that a datagram must have: the CRC-32/MPEG-2 (polynomial 04C11DB7, start FFFFFFFF) of the
    little-endian 32-bit words before its last four bytes, high bit first.

    zlib's CRC has the same polynomial, but takes the low bit of each byte first and inverts its result. So bytes are
    reversed within words, bits within bytes, and the bits of the result once more.
    """
    words = np.frombuffer(datagram, dtype="<u4", count=(len(datagram) - 4) // 4)
    reflected = words.byteswap().tobytes().translate(_REVERSED_BITS)
    return int(f"{zlib.crc32(reflected) ^ 0xFFFFFFFF:032b}"[::-1], 2)


def sealed(datagram: bytes) -> bytes:
    """Return a datagram with its checksum at its end."""
    return datagram[:-4] + checksum(datagram).to_bytes(4, "little")


def _blank(generation: Generation, layout: np.dtype[np.void]) -> npt.NDArray[np.void]:
    """Return a record (1,) of zeros with head and level."""
    record = np.zeros(1, dtype=layout)
    record["level"] = LOW_LEVEL
    if generation.head:
        record["head"] = tuple(generation.head)
    return record


def _opened(generation: Generation, layout: np.dtype[np.void], datagram: bytes) -> npt.NDArray[np.void]:
    """Return the record (1,) in a datagram, a view of its bytes; WireError for a wrong size, head or checksum."""
    name, size = generation.name, len(datagram)
    if size != layout.itemsize:
        if (other := _SIZES.get(size, name)) != name:
            raise WireError(
                "generation", f"a datagram of {size} bytes is {other}, not {name}: set the generation to {other}"
            )
        raise WireError("size", f"a {name} datagram has {layout.itemsize} bytes, this one {size}")
    if not datagram.startswith(generation.head):
        found = datagram[: len(generation.head)].hex()
        raise WireError("head", f"a {name} datagram starts with {generation.head.hex()}, this one with {found}")
    expected, given = checksum(datagram), int.from_bytes(datagram[-4:], "little")
    if given != expected:
        raise WireError("checksum", f"the checksum of a datagram is {given:08x} instead of {expected:08x}")
    return np.frombuffer(datagram, dtype=layout)
