"""What the keys of teleop_keyboard mean."""

from __future__ import annotations

from enum import Enum

import numpy as np

from fcnet_core.robot import CommandRange

HELP = """\
  w s  faster forward, backward     r f  body higher, lower      1  stand up
  a d  faster left, right           i k  nose down, up           2  walk
  q e  turn left, right             j l  lean left, right        3  lie down
  space  no velocity                c    level, nominal height   0  reset after a fault
  x or Esc  EMERGENCY STOP          Ctrl-C  quit"""

# Key: setpoint field and how much a press adds to it (SI units).
STEPS = {
    "w": ("vx", 0.1),
    "s": ("vx", -0.1),
    "a": ("vy", 0.05),
    "d": ("vy", -0.05),
    "q": ("yaw_rate", 0.1),
    "e": ("yaw_rate", -0.1),
    "r": ("height", 0.01),
    "f": ("height", -0.01),
    "i": ("pitch", 0.02),
    "k": ("pitch", -0.02),
    "j": ("roll", -0.02),
    "l": ("roll", 0.02),
}
ARROWS = {"\x1b[A": "w", "\x1b[B": "s", "\x1b[D": "q", "\x1b[C": "e"}
VELOCITY = ("vx", "vy", "yaw_rate")
POSE = ("height", "roll", "pitch")


class Request(str, Enum):
    """What a key asks of the controller; the values are the names of its services."""

    STAND_UP = "stand_up"
    WALK = "walk"
    LIE_DOWN = "lie_down"
    RESET = "reset"
    EMERGENCY_STOP = "emergency_stop"


REQUESTS = {
    "1": Request.STAND_UP,
    "2": Request.WALK,
    "3": Request.LIE_DOWN,
    "0": Request.RESET,
    "x": Request.EMERGENCY_STOP,
    "\x1b": Request.EMERGENCY_STOP,
}


class KeyboardCommand:
    """The command built up by key presses, within a robot's command ranges."""

    def __init__(self, ranges: dict[str, CommandRange]) -> None:
        self._ranges = ranges
        self.setpoint = dict.fromkeys((*VELOCITY, *POSE), 0.0)

    def press(self, key: str) -> Request | None:
        """Take one key (a character, or an arrow's escape sequence); return what it asks of the controller, if so."""
        key = ARROWS.get(key, key).lower() if len(key) != 1 else key.lower()
        if key in STEPS:
            self._add(*STEPS[key])
        elif key == " ":
            self.setpoint.update(dict.fromkeys(VELOCITY, 0.0))
        elif key == "c":
            self.setpoint.update(dict.fromkeys(POSE, 0.0))
        request = REQUESTS.get(key)
        if request is not None and request is not Request.WALK:
            self.setpoint.update(dict.fromkeys(VELOCITY, 0.0))
        return request

    def __str__(self) -> str:
        vx, vy, yaw_rate, height, roll, pitch = self.setpoint.values()
        return (
            f"{vx:+.2f} {vy:+.2f} m/s {yaw_rate:+.2f} rad/s  "
            f"height {height:+.2f} m  roll {roll:+.2f} pitch {pitch:+.2f} rad"
        )

    def _add(self, field: str, step: float) -> None:
        limits = self._ranges[field]
        wanted = round(self.setpoint[field] + step, 6)
        self.setpoint[field] = float(np.clip(wanted, limits.lowest, limits.highest))
