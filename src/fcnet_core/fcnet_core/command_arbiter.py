"""Decides who of several sources moves the robot."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fcnet_core.command_source import CommandSource
from fcnet_core.robot import SETPOINT_FIELDS

Array = npt.NDArray[np.float64]
VELOCITY = [SETPOINT_FIELDS.index(field) for field in ("vx", "vy", "yaw_rate")]
POSE = [SETPOINT_FIELDS.index(field) for field in ("height", "roll", "pitch")]
STYLE = [SETPOINT_FIELDS.index(field) for field in ("width", "clearance", "frequency")]


class CommandArbiter:
    """The sources of commands, most important first. The first active one is in control, and it alone.

    A command older than `timeout` seconds is none: without an active source the velocity is zero. A pose stays until
    a source in control gives another. Called by callbacks and by the control loop without a lock, see CommandSource.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._sources: tuple[CommandSource, ...] = ()
        self._style = (0.0, 0.0, 0.0)

    def add_source(self, name: str) -> CommandSource:
        """A new source, less important than those there are."""
        source = CommandSource(name, self._timeout, higher=self._sources)
        self._sources = (*self._sources, source)
        return source

    def set_style(self, width: float, clearance: float, frequency: float) -> None:
        """Take offsets of stance width (as a fraction), foot clearance [m] and stride frequency [Hz]; all finite."""
        self._style = (width, clearance, frequency)

    def clear(self) -> None:
        """Forget all velocities and poses."""
        for source in self._sources:
            source.clear()

    def source(self, now: float) -> str:
        """Name of the source in control at time `now` [s]; empty for none."""
        active = self._active(now)
        return active.name if active else ""

    def wanted(self, now: float) -> Array:
        """Setpoints (9,) in SETPOINT_FIELDS order at time `now` [s]; ranges are the CommandShaper's business."""
        setpoint = np.zeros(len(SETPOINT_FIELDS))
        if active := self._active(now):
            setpoint[VELOCITY] = active.velocity(now)
        if self._sources:
            setpoint[POSE] = max((source.pose for source in self._sources), key=lambda pose: pose[3])[:3]
        setpoint[STYLE] = self._style
        return setpoint

    def _active(self, now: float) -> CommandSource | None:
        return next((source for source in self._sources if source.is_active(now)), None)
