"""What goes to and comes from a robot, in SI units: motor commands, robot states, the wireless remote."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

SERVO = 0x0A  # motor modes of the vendor
OFF = 0x00
POSITION_STOP = 2.146e9  # [rad] the vendor's "no position control"
VELOCITY_STOP = 16000.0  # [rad/s] the vendor's "no velocity control"

REMOTE_BYTES = 40
BUTTONS = ("R1", "L1", "start", "select", "R2", "L2", "F1", "F2", "A", "B", "X", "Y", "up", "right", "down", "left")
STICKS = ("lx", "ly", "rx", "ry", "L2")
_REMOTE_LAYOUT = struct.Struct("<2xH5f16x")  # two bytes of head, buttons from bit 0 on, lx, rx, ry, L2, ly


@dataclass(frozen=True)
class LowCommand:
    """One command to the 12 joint motors, arrays (12,) in JOINT_NAMES order, which is also the order on the wire.

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


@dataclass(frozen=True)
class LowState:
    """One state of the robot. Joint arrays (12,) in JOINT_NAMES order.

    mode: motor modes; position [rad]; velocity [rad/s]; torque: the board's estimate [Nm]; temperature of the motors
    [deg C]; orientation (4,) x, y, z, w; angular_velocity (3,) [rad/s] and linear_acceleration (3,) [m/s^2] in the body
    frame, the latter with gravity as an accelerometer measures it; imu_temperature [deg C]; foot_force (4,), FR FL RR
    RL, in the vendor's units; tick: the board's own time, in its own unit; remote: REMOTE_BYTES of the wireless remote;
    identity: the header's (commVersion, robotID) or the two version words in their place.
    """

    mode: npt.NDArray[np.uint8]
    position: Array
    velocity: Array
    torque: Array
    temperature: Array
    orientation: Array
    angular_velocity: Array
    linear_acceleration: Array
    imu_temperature: float
    foot_force: Array
    tick: int
    remote: bytes
    identity: tuple[int, ...]


@dataclass(frozen=True)
class RemoteState:
    """Pressed buttons, names out of BUTTONS; left and right stick to the right (x) and forward (y), -1 to 1; and how
    far the trigger L2 is pulled.
    """

    buttons: frozenset[str] = frozenset()
    lx: float = 0.0
    ly: float = 0.0
    rx: float = 0.0
    ry: float = 0.0
    L2: float = 0.0


def decode_remote(remote: bytes) -> RemoteState:
    """The state of the remote; 40 zeros, and anything but 40 bytes, are a remote at rest.

    Never raises: an axis that is not a number is 0, one beyond -1 to 1 is clipped.
    """
    if len(remote) != REMOTE_BYTES:
        return RemoteState()
    bits, lx, rx, ry, l2, ly = _REMOTE_LAYOUT.unpack(remote)
    pressed = frozenset(name for bit, name in enumerate(BUTTONS) if bits >> bit & 1)
    return RemoteState(pressed, _axis(lx), _axis(ly), _axis(rx), _axis(ry), _axis(l2))


def encode_remote(remote: RemoteState) -> bytes:
    """The 40 bytes of a remote, with a head of zeros."""
    bits = sum(1 << bit for bit, name in enumerate(BUTTONS) if name in remote.buttons)
    return _REMOTE_LAYOUT.pack(bits, remote.lx, remote.rx, remote.ry, remote.L2, remote.ly)


def _axis(value: float) -> float:
    return max(-1.0, min(1.0, value)) if math.isfinite(value) else 0.0
