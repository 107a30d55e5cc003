"""Whether the motors still obey: one that has cut itself out, being too hot or without power, leaves its servo mode."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fcnet_core.robot import JOINT_NAMES
from unitree_lowlevel.low_command import SERVO

NAME = "servo_lost"


class ServoWatch:
    """Remembers which motors have said that they are in servo mode.

    What real boards say there has been seen on no robot: motors that never say it are not judged.
    """

    def __init__(self) -> None:
        self._served = np.zeros(len(JOINT_NAMES), dtype=bool)

    def reset(self) -> None:
        """Forget what was said: another robot answers."""
        self._served[:] = False

    def check(self, mode: npt.NDArray[np.uint8]) -> str | None:
        """A reason when a motor that has said SERVO while commanded so says another of the modes (12,)."""
        serves = mode == SERVO
        self._served |= serves
        lost = np.flatnonzero(self._served & ~serves)
        if not len(lost):
            return None
        others = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        return (
            f"the motor of {JOINT_NAMES[lost[0]]}{others} has left its servo mode ({SERVO}) and says {mode[lost[0]]}; "
            "let it cool, look at its plugs, switch the robot off and on"
        )
