"""What a motor makes of a command's special values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fcnet_core.robot import JOINT_NAMES
from unitree_lowlevel.low_command import OFF, POSITION_STOP, SERVO, VELOCITY_STOP, LowCommand

_ZERO = np.zeros(12)
WITHOUT_TORQUE = LowCommand(np.full(12, OFF, dtype=np.uint8), _ZERO, _ZERO, _ZERO, _ZERO, _ZERO)


def acting_command(command: LowCommand | None) -> LowCommand:
    """The command that has the same torques by its numbers alone: terms that the vendor's special values or another
    mode than SERVO switch off are zero. None is no command.
    """
    if command is None:
        return WITHOUT_TORQUE
    servo = command.mode == SERVO
    holds = servo & (np.abs(command.position) < POSITION_STOP)
    damps = servo & (np.abs(command.velocity) < VELOCITY_STOP)
    return LowCommand(
        mode=command.mode,
        position=np.where(holds, command.position, 0.0),
        velocity=np.where(damps, command.velocity, 0.0),
        torque=np.where(servo, command.torque, 0.0),
        stiffness=np.where(holds, command.stiffness, 0.0),
        damping=np.where(damps, command.damping, 0.0),
    )


def with_dead_motor(command: LowCommand, joint: str | None) -> LowCommand:
    """What is left of a command where the motor of one joint has cut itself out; None is no joint."""
    if joint is None:
        return command
    mode = command.mode.copy()
    mode[JOINT_NAMES.index(joint)] = OFF
    return replace(command, mode=mode)
