"""Commands to the motors as bytes, and back."""

from __future__ import annotations

import numpy as np

from unitree_lowlevel.datagram import blank, opened, sealed
from unitree_lowlevel.generation import LOW_LEVEL, Generation
from unitree_lowlevel.low_command import LowCommand
from unitree_lowlevel.wire_error import WireError

MOTORS = 12  # the wire has room for 20; the others stay zero, which is motor mode OFF
_VALUES = ("position", "velocity", "torque", "stiffness", "damping")
_STEPS = np.array([[256], [32], [16]], dtype=np.float32)  # of torque, stiffness, damping; per SI unit
_LOWEST = np.array([[-32768], [0], [0]], dtype=np.float32)
_HIGHEST = np.float32(32767)


def encode_command(generation: Generation, command: LowCommand, sequence: int = 0) -> bytes:
    """The datagram of a command, as the vendor's library makes it: fixed-point values are cut towards zero.

    Unlike there, a value beyond what the wire can say is sent as the nearest that it can (|torque| < 128 Nm,
    0 <= stiffness < 1024 Nm/rad, 0 <= damping < 2048 Nms/rad) instead of wrapping round to something else.
    sequence: the number SN of the header. Raises WireError "not_finite" for NaN and for what single precision cannot
    hold.
    """
    record = blank(generation, generation.command)
    record["sequence"][0, 0] = sequence
    motors = record["motors"][0, :MOTORS]
    motors["mode"] = command.mode
    motors["position"], motors["velocity"], *fixed_point = _wire_values(command)
    motors["torque"], motors["stiffness"], motors["damping"] = fixed_point
    return sealed(record, generation.command_checked)


def decode_command(generation: Generation, datagram: bytes) -> LowCommand:
    """The command that a datagram holds, for the board's side.

    Raises WireError for a wrong size, head, checksum or level and for NaN or infinity.
    """
    record = opened(generation, generation.command, generation.command_checked, datagram)
    level = int(record["level"][0])
    if level != LOW_LEVEL:
        raise WireError("level", f"a command to motors has level {LOW_LEVEL:#x}, this one {level:#x}")
    motors = record["motors"][0, :MOTORS]
    position, velocity, torque, stiffness, damping = (motors[name].astype(np.float64) for name in _VALUES)
    if not (np.isfinite(position).all() and np.isfinite(velocity).all()):
        raise WireError("not_finite", "a command holds a position or velocity that is not a finite number")
    return LowCommand(motors["mode"].copy(), position, velocity, torque / 256, stiffness / 32, damping / 16)


def _wire_values(command: LowCommand) -> np.ndarray:
    """Rows position, velocity, torque, stiffness, damping (5, 12), the last three in steps of the wire."""
    rows = [command.position, command.velocity, command.torque, command.stiffness, command.damping]
    with np.errstate(over="ignore"):
        values = np.array(rows, dtype=np.float32)
    if not np.isfinite(values).all():
        name = _VALUES[int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])]
        raise WireError("not_finite", f"a command's {name} is not a finite number: it was not sent")
    values[2:] = np.trunc(np.clip(values[2:] * _STEPS, _LOWEST, _HIGHEST))
    return values
