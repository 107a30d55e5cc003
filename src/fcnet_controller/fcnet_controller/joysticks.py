"""Several joysticks that share one topic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fcnet_controller.joy_command import JoyCommand, JoyOrder
from fcnet_core.remote_map import RemoteMap
from fcnet_core.robot import CommandRange


@dataclass
class _Joystick:
    command: JoyCommand
    silence: float = 0.0  # [s]
    is_let_go: bool = False


class Joysticks:
    """Tells joysticks apart by the frame_id of their messages. Who holds its deadman button first drives alone.

    `layout` is for joysticks whose frame_id none claims. A joystick that has said nothing in `timeout` [s] of listening
    is let go.
    Raises RemoteFileError for an unknown layout.
    """

    def __init__(self, remote: RemoteMap, layout: str, ranges: dict[str, CommandRange], timeout: float) -> None:
        self._remote = remote
        self._layout = remote.layout(layout).name
        self._ranges = ranges
        self._timeout = timeout
        self._joysticks: dict[str, _Joystick] = {}
        self._driver: str | None = None

    def take(self, frame_id: str, axes: Sequence[float], buttons: Sequence[int], now: float) -> JoyOrder:
        """Read a message received at time `now` [s]; only a driver's order has a velocity or a pose."""
        joystick = self._joysticks.get(frame_id)
        if joystick is None:
            layout = self._remote.layout_of(frame_id, self._layout)
            joystick = _Joystick(JoyCommand(self._remote.joystick, layout, self._ranges))
            self._joysticks[frame_id] = joystick
        joystick.silence, joystick.is_let_go = 0.0, False
        return self._of_driver(frame_id, joystick.command.take(axes, buttons, now))

    def let_go_of_silent(self, listened: float) -> list[tuple[str, JoyOrder]]:
        """After `listened` [s] more: frame_ids of joysticks that have now been silent too long, and what follows."""
        orders = []
        for frame_id, joystick in self._joysticks.items():
            joystick.silence += listened
            if joystick.silence > self._timeout and not joystick.is_let_go:
                joystick.is_let_go = True
                orders.append((frame_id, self._of_driver(frame_id, joystick.command.release())))
        return orders

    def _of_driver(self, frame_id: str, order: JoyOrder) -> JoyOrder:
        if self._driver not in (None, frame_id):
            return replace(order, velocity=None, pose=None)
        self._driver = frame_id if order.driving else None
        return order
