"""What a person can ask of a robot's controller."""

from __future__ import annotations

from enum import Enum


class Request(str, Enum):
    """A change of mode; the values are the names of the controller's services."""

    STAND_UP = "stand_up"
    WALK = "walk"
    LIE_DOWN = "lie_down"
    RESET = "reset"
    EMERGENCY_STOP = "emergency_stop"
