"""What stands behind a fake motor board: something with 12 driven joints and sensors."""

from __future__ import annotations

from typing import Protocol

from fcnet_core.robot import Robot
from unitree_lowlevel.low_command import LowCommand
from unitree_lowlevel.low_state import LowState


class BoardPhysics(Protocol):
    """The body behind a board. It is used from the board's thread alone."""

    robot: Robot

    def apply(self, command: LowCommand | None) -> None:
        """Obey `command`, all of it finite, from now on; None takes the torque from all motors."""
        ...

    def block(self, joint: int | None) -> None:
        """Hold one joint, an index in JOINT_NAMES, where it is, whatever its motor does; None lets go of it."""
        ...

    def advance(self, duration: float) -> None:
        """Let `duration` [s] pass."""
        ...

    def state(self, tick: int, remote: bytes, identity: tuple[int, ...]) -> LowState:
        """What the sensors say now; the arguments, which are the board's own, go into it as they are."""
        ...
