"""Commands of several sources, their limits, and the gait clock."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import structs

from fcnet_core.arrays import Array, Mask
from fcnet_core.control.envelope import Envelope
from fcnet_core.control.timing import NEVER
from fcnet_core.robot import FIXED, NO_GAIT, SETPOINT_FIELDS, CommandRange, Gait
from fcnet_core.rotation import roll_pitch_yaw

if TYPE_CHECKING:
    from fcnet_core.observation import PolicyInterface

VELOCITY, POSE, STYLE = slice(0, 3), slice(3, 6), slice(6, 9)  # of SETPOINT_FIELDS
FREQUENCY = SETPOINT_FIELDS.index("frequency")
VELOCITY_TIMEOUT = 0.5  # [s] default age limit of velocity commands


class GaitClock:
    """Gait phases of `batch` robots, each in [0, 1), advanced by `period` seconds per step from commands and time only.

    The expert follows these phases, and they are part of the command, so a policy that imitates the expert sees its
    phase. Strides start immediately and stop only at phase 0 or 0.5. They continue for `linger` seconds after the
    command has gone to zero, so that a moving robot comes to rest on its feet.
    """

    def __init__(self, gait: Gait, period: float, batch: int = 1) -> None:
        self.gait, self.period = gait, period
        self.phase: Array = np.zeros(batch)
        self.walking = np.zeros(batch, dtype=bool)
        self._linger: Array = np.zeros(batch)

    def reset(self, mask: Mask | None = None) -> None:
        """Bring the clocks in `mask` (batch,), or all clocks, to rest at phase 0."""
        for values in (self.phase, self.walking, self._linger):
            values[... if mask is None else mask] = 0

    def frequency(self, setpoint: Array) -> Array:
        """Return strides per second (batch,) for setpoints (batch, 9)."""
        vx, vy, _ = setpoint[:, VELOCITY].T
        above = np.maximum(np.hypot(vx, vy) - self.gait.speed_knee, 0.0)
        return self.gait.frequency + self.gait.frequency_gain * above + setpoint[:, FREQUENCY]

    def advance(self, setpoint: Array) -> None:
        """Advance by one period under setpoints (batch, 9)."""
        vx, vy, yaw_rate = np.abs(setpoint[:, VELOCITY]).T
        commanded = vx + vy + 0.3 * yaw_rate > self.gait.threshold
        self._linger = np.where(commanded, self.gait.linger, np.maximum(self._linger - self.period, 0.0))
        requested = commanded | (self._linger > 0)
        moved = self.phase + self.frequency(setpoint) * self.period
        halves = np.floor(2 * moved)
        stops = self.walking & (halves > np.floor(2 * self.phase)) & ~requested
        moves = self.walking | requested
        self.phase = np.where(stops, halves / 2, np.where(moves, moved, self.phase)) % 1.0
        self.walking = moves & ~stops


class CommandShaper:
    """Limits setpoints and advances the gait clock of `batch` robots.

    Setpoints are limited to their ranges, together to the envelope (if any), and in rate; they are always within the
    envelope. requested: the last requested setpoints (batch, 9); target: the same within ranges and envelope; setpoint:
    the current value, which approaches the target at the allowed rates. deadband: see Commands of an interface.
    """

    def __init__(
        self,
        ranges: dict[str, CommandRange],
        gait: Gait,
        period: float,
        batch: int = 1,
        envelope: Envelope | None = None,
        deadband: float = 0.0,
    ) -> None:
        limits = [structs.astuple(ranges.get(field, FIXED)) for field in SETPOINT_FIELDS]
        self._lowest, self._highest, rate = np.array(limits).T
        self._envelope, self._deadband, self._step = envelope, deadband, rate * period
        self.clock = GaitClock(gait, period, batch)
        self.setpoint: Array = np.zeros((batch, len(SETPOINT_FIELDS)))
        self.requested = self.target = self.setpoint

    @classmethod
    def of(cls, interface: PolicyInterface, batch: int = 1) -> CommandShaper:
        """Return the shaper of a policy for `batch` robots, at the policy's rate."""
        at = interface.commands
        return cls(at.ranges, at.gait or NO_GAIT, 1.0 / interface.rate, batch, at.envelope, at.deadband)

    def reset(self, mask: Mask | None = None) -> None:
        """Set the setpoints of the robots in `mask` (batch,), or of all robots, to zero and their clocks to rest."""
        self.clock.reset(mask)
        self.setpoint = np.where(True if mask is None else mask[:, None], 0.0, self.setpoint)

    def step(self, requested: npt.ArrayLike) -> None:
        """Move one period towards setpoints (batch, 9) in SETPOINT_FIELDS order.

        Raises ValueError for NaN, before anything changes.
        """
        setpoint = np.asarray(requested, dtype=np.float64).reshape(self.setpoint.shape)
        if not (setpoint == self.requested).all():
            self._request(setpoint)
        before, step = self.setpoint, self._step
        moved = before + np.minimum(np.maximum(self.target - before, -step), step)
        if self._envelope is not None and (moved != before).any():
            moved = self._envelope.follow(before, moved, step.tolist())
        self.setpoint = moved
        self.clock.advance(moved)

    def limited(self) -> str:
        """Return the limited fields of the first robot's request, such as "vx 2 to 1.2", or an empty text."""
        pairs = zip(SETPOINT_FIELDS, self.requested[0].tolist(), self.target[0].tolist(), strict=True)
        return ", ".join(f"{name} {asked:.3g} to {given:.3g}" for name, asked, given in pairs if asked != given)

    def _request(self, setpoint: Array) -> None:
        if np.isnan(setpoint).any():
            raise ValueError("a setpoint is not a number; send finite commands")
        target = np.minimum(np.maximum(setpoint, self._lowest), self._highest)
        if self._deadband:
            target[np.hypot(target[:, 0], target[:, 1]) <= self._deadband, :2] = 0.0
        self.target = target if self._envelope is None else self._envelope.shorten(target)
        self.requested = setpoint.copy()


STILL = (0.0, 0.0, 0.0)


class CommandSource:
    """The newest commands of one source (a person or a program). higher: the sources with a higher priority.

    A source is active until its newest command is older than `timeout` seconds. Callbacks write and the control loop
    reads without a lock: every command is one object that is replaced.
    """

    def __init__(self, name: str, timeout: float, higher: tuple[CommandSource, ...] = ()) -> None:
        self.name, self._timeout, self._higher = name, timeout, higher
        self.clear()

    def clear(self) -> None:
        """Delete its commands."""
        self._velocity = (*STILL, NEVER)
        self.pose = (*STILL, NEVER)  # height [m], roll and pitch [rad], and time [s] of the last pose

    def set_velocity(self, vx: float, vy: float, yaw_rate: float, now: float) -> str | None:
        """Set a velocity [m/s, m/s, rad/s] at time `now` [s].

        A velocity that is not finite counts as zero; then return a warning.
        """
        if all(map(math.isfinite, (vx, vy, yaw_rate))):
            self._velocity = (vx, vy, yaw_rate, now)
            return None
        self._velocity = (*STILL, now)
        return f"velocity ({vx}, {vy}, {yaw_rate}) of {self.name} is not finite and counts as zero; send finite numbers"

    def set_pose(self, height: float, orientation: tuple[float, float, float, float], now: float) -> str | None:
        """Set a height offset [m] and an attitude x, y, z, w relative to the heading; its yaw has no effect.

        Discards the pose while a higher source is active. An invalid pose is ignored; then return a warning.
        """
        length = math.hypot(*orientation)
        if not (math.isfinite(height) and math.isfinite(length) and length >= 0.5):
            return f"the pose of {self.name} is ignored: height must be finite and orientation a unit quaternion"
        if not any(source.is_active(now) for source in self._higher):
            roll, pitch, _ = roll_pitch_yaw(np.array(orientation) / length)
            self.pose = (height, float(roll), float(pitch), now)
        return None

    def is_active(self, now: float) -> bool:
        """Return whether its newest command is recent enough at time `now` [s]."""
        return abs(now - max(self._velocity[3], self.pose[3])) <= self._timeout

    def velocity(self, now: float) -> tuple[float, float, float]:
        """Return vx [m/s], vy [m/s] and yaw rate [rad/s] at time `now` [s]; zero if the command is too old."""
        vx, vy, yaw_rate, given = self._velocity
        return (vx, vy, yaw_rate) if abs(now - given) <= self._timeout else STILL  # simulated time may go back


class CommandArbiter:
    """Sources of commands by priority. Only the first active source is in control.

    Without an active source, that is, without a command in the last `timeout` seconds, the velocity is zero. A pose is
    kept until a source in control sends another one. Callbacks and control loop call it without a lock, see
    CommandSource.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._sources: tuple[CommandSource, ...] = ()
        self._style = (0.0, 0.0, 0.0)

    def add_source(self, name: str) -> CommandSource:
        """Add a source with the lowest priority."""
        source = CommandSource(name, self._timeout, higher=self._sources)
        self._sources = (*self._sources, source)
        return source

    def set_style(self, width: float, clearance: float, frequency: float) -> None:
        """Set offsets of stance width (as a fraction), foot clearance [m] and stride frequency [Hz]; all finite."""
        self._style = (width, clearance, frequency)

    def clear(self) -> None:
        """Delete all velocities and poses."""
        for source in self._sources:
            source.clear()

    def source(self, now: float) -> str:
        """Return the name of the source in control at time `now` [s]; empty if there is none."""
        active = self._active(now)
        return active.name if active else ""

    def wanted(self, now: float) -> Array:
        """Return setpoints (9,) in SETPOINT_FIELDS order at time `now` [s]; CommandShaper limits them."""
        setpoint = np.zeros(len(SETPOINT_FIELDS))
        if active := self._active(now):
            setpoint[VELOCITY] = active.velocity(now)
        if self._sources:
            setpoint[POSE] = max((source.pose for source in self._sources), key=lambda pose: pose[3])[:3]
        setpoint[STYLE] = self._style
        return setpoint

    def _active(self, now: float) -> CommandSource | None:
        return next((source for source in self._sources if source.is_active(now)), None)
