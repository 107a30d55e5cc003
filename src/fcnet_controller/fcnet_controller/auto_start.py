"""Gets a robot walking without anybody asking, once."""

from __future__ import annotations

from fcnet_controller.control_core import ControlCore
from fcnet_controller.posture import Mode


class AutoStart:
    """Stands up as soon as states arrive, then walks; done for good when the robot walks or is in fault."""

    def __init__(self, core: ControlCore) -> None:
        self._core = core
        self._stood_up = False
        self.done = False

    def advance(self, now: float) -> None:
        """Make the next request, if it is time for it; `now` is the core's time [s]."""
        mode = self._core.mode
        if self.done or mode in (Mode.WALKING, Mode.FAULT, Mode.LYING_DOWN):
            self.done = True
        elif mode is Mode.PASSIVE:
            self.done = self._stood_up
            self._stood_up = self._stood_up or self._core.stand_up(now).accepted
        elif mode is Mode.STANDING:
            self._core.walk()
