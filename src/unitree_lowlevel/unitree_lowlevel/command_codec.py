"""Commands to the motors as bytes, and back."""

from __future__ import annotations

import numpy as np

from unitree_lowlevel.datagram import blank, opened, sealed
from unitree_lowlevel.finite import require_finite
from unitree_lowlevel.fixed_point import FIELDS, STEPS, wire_values
from unitree_lowlevel.generation import LOW_LEVEL, Generation
from unitree_lowlevel.low_command import LowCommand
from unitree_lowlevel.wire_error import WireError

MOTORS = 12  # the wire has room for 20; the others stay zero, which is motor mode OFF


def encode_command(generation: Generation, command: LowCommand) -> bytes:
    """The datagram of a command, as the vendor's library makes it within the wire's range, see fixed_point.py.

    Raises WireError "not_finite" for NaN and for what single precision cannot hold.
    """
    values = wire_values(command)
    record = blank(generation, generation.command)
    motors = record["motors"][0, :MOTORS]
    motors["mode"] = command.mode
    for field, row in zip(FIELDS, values, strict=True):
        motors[field] = row
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
    require_finite("a command holds a position or velocity", motors["position"], motors["velocity"])
    rows = (motors[field].astype(np.float64) / step for field, step in zip(FIELDS, STEPS[:, 0], strict=True))
    return LowCommand(motors["mode"].copy(), *rows)
