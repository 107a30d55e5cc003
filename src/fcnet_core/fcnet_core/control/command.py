"""From the commands of several sources to the 16-dimensional command vector that a policy sees."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array, Floats, Mask
from fcnet_core.control.envelope import Envelope
from fcnet_core.control.timing import NEVER
from fcnet_core.robot import SETPOINT_FIELDS, CommandRange, Gait
from fcnet_core.rotation import roll_pitch_yaw

VELOCITY, POSE, STYLE = slice(0, 3), slice(3, 6), slice(6, 9)  # of SETPOINT_FIELDS
FREQUENCY = SETPOINT_FIELDS.index("frequency")
VELOCITY_TIMEOUT = 0.5  # [s] an older velocity command is none, unless the controller's parameters say otherwise


class GaitClock:
    """Gait phases of `batch` robots, each in [0, 1), advanced by `period` seconds a step: by commands and time alone.

    The controller computes them and the expert follows them, so a policy that imitates the expert can see where in the
    stride the expert is. A stride starts at once, stops only where it is half or wholly done, and goes on for a while
    after the command has gone to zero, so that a robot in motion comes to rest on its feet.
    """

    def __init__(self, gait: Gait, period: float, batch: int = 1) -> None:
        self.gait = gait
        self.period = period
        self.phase: Array = np.zeros(batch)
        self.walking = np.zeros(batch, dtype=bool)
        self._linger: Array = np.zeros(batch)

    def reset(self, mask: Mask | None = None) -> None:
        """Bring the clocks in `mask` (batch,), or all, to rest at phase 0."""
        chosen = np.ones(len(self.phase), dtype=bool) if mask is None else mask
        self.phase[chosen] = 0.0
        self.walking[chosen] = False
        self._linger[chosen] = 0.0

    def frequency(self, setpoint: Array) -> Array:
        """Strides per second (batch,) for setpoints (batch, 9)."""
        vx, vy, _ = setpoint[:, VELOCITY].T
        above = np.maximum(np.hypot(vx, vy) - self.gait.speed_knee, 0.0)
        return self.gait.frequency + self.gait.frequency_gain * above + setpoint[:, FREQUENCY]

    def advance(self, setpoint: Array) -> None:
        """Move on by one period under setpoints (batch, 9)."""
        vx, vy, yaw_rate = np.abs(setpoint[:, VELOCITY]).T
        commanded = vx + vy + 0.3 * yaw_rate > self.gait.threshold
        self._linger = np.where(commanded, self.gait.linger, np.maximum(self._linger - self.period, 0.0))
        wanted = commanded | (self._linger > 0)
        moved = self.phase + self.frequency(setpoint) * self.period
        halves = np.floor(2 * moved)
        stops = self.walking & (halves > np.floor(2 * self.phase)) & ~wanted
        moves = self.walking | wanted
        self.phase = np.where(stops, halves / 2, np.where(moves, moved, self.phase)) % 1.0
        self.walking = moves & ~stops


COMMAND_SIZE = 16


class CommandShaper:
    """Limits setpoints, keeps the gait clock, and writes the command vector of `batch` robots.

    Setpoints are limited to the ranges, each for itself, to the envelope, if there is one, together, and in rate; what
    results is always in the envelope. wanted, target: the setpoints (batch, 9) last asked for, and what they are
    limited to; setpoint: where the rates have taken them so far.

    Index of the command vector: 0 vx [m/s], 1 vy [m/s], 2 yaw rate [rad/s], 3 body height offset [m], 4 roll [rad], 5
    pitch [rad], 6 stance width - 1, 7 foot clearance offset [m], 8 sine and 9 cosine of the gait phase, 10 walk flag,
    11 stride frequency offset [Hz], 12-15 zero.
    """

    def __init__(
        self,
        ranges: dict[str, CommandRange],
        gait: Gait,
        period: float,
        batch: int = 1,
        envelope: Envelope | None = None,
    ) -> None:
        self._lowest = np.array([ranges[field].lowest for field in SETPOINT_FIELDS])
        self._highest = np.array([ranges[field].highest for field in SETPOINT_FIELDS])
        self._step = np.array([ranges[field].rate for field in SETPOINT_FIELDS]) * period
        self._envelope = envelope
        self._steps: list[float] = self._step.tolist()
        self.clock = GaitClock(gait, period, batch)
        self.setpoint: Array = np.zeros((batch, len(SETPOINT_FIELDS)))
        self.wanted = self.target = self.setpoint

    def reset(self, mask: Mask | None = None) -> None:
        """Return the robots in `mask` (batch,), or all, to a zero setpoint and a clock at rest."""
        self.clock.reset(mask)
        self.setpoint = np.where(True if mask is None else mask[:, None], 0.0, self.setpoint)

    def step(self, wanted: npt.ArrayLike) -> Array:
        """Take one period's step towards setpoints (batch, 9) in SETPOINT_FIELDS order; return commands (batch, 16).

        A NaN raises ValueError before anything changes.
        """
        asked = np.asarray(wanted, dtype=np.float64).reshape(self.setpoint.shape)
        if not (asked == self.wanted).all():
            self._take(asked)
        before, step = self.setpoint, self._step
        moved = before + np.minimum(np.maximum(self.target - before, -step), step)
        if self._envelope is not None and (moved != before).any():
            moved = self._envelope.follow(before, moved, self._steps)
        self.setpoint = moved
        self.clock.advance(moved)
        return self.command()

    def limited(self, robot: int = 0) -> str:
        """The fields of a robot's wanted setpoint that are limited, in words, such as "vx 2 to 1.2"; empty for none."""
        pairs = zip(SETPOINT_FIELDS, self.wanted[robot].tolist(), self.target[robot].tolist(), strict=True)
        return ", ".join(f"{name} {wanted:.3g} to {given:.3g}" for name, wanted, given in pairs if wanted != given)

    def _take(self, wanted: Array) -> None:
        if np.isnan(wanted).any():
            raise ValueError("a setpoint is not a number; send finite commands")
        target = np.minimum(np.maximum(wanted, self._lowest), self._highest)
        self.target = target if self._envelope is None else self._envelope.shorten(target)
        self.wanted = wanted.copy()

    def command(self) -> Array:
        """The command vectors (batch, 16) of the current setpoints and phases."""
        command = np.zeros((len(self.setpoint), COMMAND_SIZE))
        command[:, 0:8] = self.setpoint[:, 0:8]
        angle = 2 * np.pi * self.clock.phase
        command[:, 8] = np.sin(angle)
        command[:, 9] = np.cos(angle)
        command[:, 10] = self.clock.walking
        command[:, 11] = self.setpoint[:, 8]
        return command


def setpoints_of(commands: Floats) -> Floats:
    """The setpoints (..., 9) in command vectors (..., 16) of a CommandShaper."""
    return commands[..., [*range(8), 11]]


def gait_phase(commands: Floats) -> Floats:
    """The gait's phase (...), in [0, 1), in command vectors (..., 16) of a CommandShaper; NaN at rest."""
    phase = np.arctan2(commands[..., 8], commands[..., 9]) / (2 * np.pi) % 1.0
    return np.where(commands[..., 10] > 0.5, phase, np.nan)


SHORTEST_QUATERNION = 0.5
STILL = (0.0, 0.0, 0.0)


class CommandSource:
    """The newest commands of one source (a person or a program); `higher` are the sources that precede it.

    It is active until its newest command is older than `timeout` seconds. Written by callbacks and read by the control
    loop without a lock: every command is replaced as a whole.
    """

    def __init__(self, name: str, timeout: float, higher: tuple[CommandSource, ...] = ()) -> None:
        self.name = name
        self._timeout = timeout
        self._higher = higher
        self.clear()

    def clear(self) -> None:
        """Forget its commands."""
        self._velocity = (*STILL, NEVER)
        self.pose = (
            *STILL,
            NEVER,
        )  # height [m], roll, pitch [rad] of the last pose, and the time [s] of it

    def set_velocity(self, vx: float, vy: float, yaw_rate: float, now: float) -> str | None:
        """Take a velocity [m/s, m/s, rad/s] given at time `now` [s].

        A velocity that is not finite counts as zero; a warning is returned.
        """
        if all(map(math.isfinite, (vx, vy, yaw_rate))):
            self._velocity = (vx, vy, yaw_rate, now)
            return None
        self._velocity = (*STILL, now)
        return f"velocity ({vx}, {vy}, {yaw_rate}) of {self.name} is not finite and counts as zero; send finite numbers"

    def set_pose(self, height: float, orientation: tuple[float, float, float, float], now: float) -> str | None:
        """Take a height offset [m] and an attitude x, y, z, w relative to the heading, of which roll and pitch count.

        It is lost while a higher source is active. An invalid pose is ignored; a warning is returned.
        """
        length = math.hypot(*orientation)
        if not (math.isfinite(height) and math.isfinite(length) and length >= SHORTEST_QUATERNION):
            return f"the pose of {self.name} is ignored: height must be finite and orientation a unit quaternion"
        if not any(source.is_active(now) for source in self._higher):
            roll, pitch, _ = roll_pitch_yaw(np.array(orientation) / length)
            self.pose = (height, float(roll), float(pitch), now)
        return None

    def is_active(self, now: float) -> bool:
        """Whether it has given a command that still counts at time `now` [s]."""
        return abs(now - max(self._velocity[3], self.pose[3])) <= self._timeout

    def velocity(self, now: float) -> tuple[float, float, float]:
        """Vx [m/s], vy [m/s], yaw rate [rad/s] that count at time `now` [s]: zero where they are stale."""
        vx, vy, yaw_rate, given = self._velocity
        return (vx, vy, yaw_rate) if abs(now - given) <= self._timeout else STILL  # simulated time may go back


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
