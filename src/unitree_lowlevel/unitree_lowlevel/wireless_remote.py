"""The wireless remote, 40 bytes in every state."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

REMOTE_BYTES = 40
BUTTONS = ("R1", "L1", "start", "select", "R2", "L2", "F1", "F2", "A", "B", "X", "Y", "up", "right", "down", "left")
_LAYOUT = struct.Struct("<2xH5f16x")  # two bytes of head, buttons from bit 0 on, lx, rx, ry, L2, ly


@dataclass(frozen=True)
class RemoteState:
    """What is pressed and where the sticks are.

    buttons: names out of BUTTONS; lx, ly, rx, ry: left and right stick to the right and forward, -1 to 1; L2: how far
    the trigger is pulled.
    """

    buttons: frozenset[str] = frozenset()
    lx: float = 0.0
    ly: float = 0.0
    rx: float = 0.0
    ry: float = 0.0
    L2: float = 0.0


def decode_remote(remote: bytes) -> RemoteState:
    """The remote's state; 40 zeros, and anything but 40 bytes, are a remote that nobody touches.

    Never raises: an axis that is not a number is 0, one beyond -1 to 1 is cut.
    """
    if len(remote) != REMOTE_BYTES:
        return RemoteState()
    bits, lx, rx, ry, l2, ly = _LAYOUT.unpack(remote)
    pressed = frozenset(name for bit, name in enumerate(BUTTONS) if bits >> bit & 1)
    return RemoteState(pressed, _axis(lx), _axis(ly), _axis(rx), _axis(ry), _axis(l2))


def encode_remote(remote: RemoteState) -> bytes:
    """The 40 bytes of a remote, with a head of zeros."""
    bits = sum(1 << bit for bit, name in enumerate(BUTTONS) if name in remote.buttons)
    return _LAYOUT.pack(bits, remote.lx, remote.rx, remote.ry, remote.L2, remote.ly)


def _axis(value: float) -> float:
    return max(-1.0, min(1.0, value)) if math.isfinite(value) else 0.0
