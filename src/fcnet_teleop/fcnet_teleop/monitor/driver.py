"""Combines the commands of all browser pages into one, which returns to zero in case of doubt."""

import threading
from typing import Annotated, Literal

import msgspec

from fcnet_core.control.timing import NEVER
from fcnet_core.robot import CommandRange
from fcnet_teleop.controls import POSE, VELOCITY, Command

COMMAND_TIMEOUT = 0.5  # [s] without a command after which a page no longer drives
SNAPSHOT_TIMEOUT = 0.5  # [s] maximum age of the displayed snapshot of a page that drives
REQUEST_TIMEOUT = 1.0  # [s] the same, for a change of mode, pose or gait style
LINGER = 1.0  # [s] for which zero velocity, or a pose, is still published
MAX_NUMBER = 1e9  # absolute value in a command
ZERO = (0.0, 0.0, 0.0)
STANDSTILL = dict.fromkeys(VELOCITY, 0.0)

Number = Annotated[float, msgspec.Meta(gt=-MAX_NUMBER, lt=MAX_NUMBER)]
Triple = tuple[Number, Number, Number]
Style = dict[Literal["width", "clearance", "frequency"], Number]
LET_GO = "let go of sticks, sliders and keys first"


class PageCommand(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A command of a page.

    page: its random name. number: increases with every command of the page. seen: time [s] of its newest snapshot.
    velocity: [m/s, m/s, rad/s]. pose: height [m], roll, pitch [rad]; None without a change. style: changes of the gait
    style, see fcnet_core.control.command.
    """

    page: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    number: int
    seen: Number
    velocity: Triple
    pose: Triple | None
    style: Style = {}


class PageRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Content of a page's request for a change of mode. seen: time [s] of its newest snapshot."""

    seen: Number


class PageDriver:
    """The command of the page that drives, within a robot's command ranges. Times are monotonic seconds.

    Only one page drives at a time, until its velocity is zero. A page may drive only after it has sent zero. This also
    applies after its velocity was reset (no command arrived, its snapshot was old, a change of mode was requested), so
    that motion never resumes automatically when a connection recovers. Thread-safe.
    """

    def __init__(self, ranges: dict[str, CommandRange]) -> None:
        self._ranges = ranges
        self._lock = threading.Lock()
        self._numbers: dict[str, int] = {}  # of the last command of every page
        self._ready: set[str] = set()  # pages that may drive
        self._style: dict[str, float] = {}  # changes that take_style has not returned yet
        self._driver = ""
        self._velocity, self._pose = STANDSTILL, dict.fromkeys(POSE, 0.0)
        self._commanded = self._moved = self._posed = NEVER

    def update(self, command: PageCommand, now: float) -> str:
        """Apply a command; return why it is rejected, or ""."""
        with self._lock:
            if command.number <= self._numbers.get(command.page, -1):
                return ""  # overtaken by a newer one
            self._numbers[command.page] = command.number
            self._check_timeout(now)
            late = too_late(command.seen, now) if command.pose or command.style else ""
            if command.pose is not None and not late:
                self._pose, self._posed = self._clip(POSE, command.pose), now
            if not late:
                self._style |= {field: self._ranges[field].clip(value) for field, value in command.style.items()}
            if command.velocity != ZERO:
                return self._drive(command, now)
            self._ready.add(command.page)
            if self._driver == command.page:
                self._stop(now)
            return late

    def release(self, now: float) -> None:
        """Reset the velocity; every page must send zero before it drives again."""
        with self._lock:
            self._stop(now)
            self._ready.clear()

    def command(self, now: float) -> Command:
        """Return the command to publish at time `now`: a velocity while a page drives, a pose after a change."""
        with self._lock:
            self._check_timeout(now)
            moves = bool(self._driver) or now - self._moved <= LINGER
            return Command(self._velocity if moves else None, self._pose if now - self._posed <= LINGER else None)

    def take_style(self) -> dict[str, float]:
        """Return the changes of the gait style since the last call."""
        with self._lock:
            style, self._style = self._style, {}
            return style

    def _drive(self, command: PageCommand, now: float) -> str:
        if self._driver and self._driver != command.page:
            return "another page drives the robot; wait until it lets go"
        if late := too_late(command.seen, now, SNAPSHOT_TIMEOUT):
            self._stop(now)
            self._ready.discard(command.page)
            return f"{late}; {LET_GO}"
        if command.page not in self._ready:
            return LET_GO
        self._driver, self._commanded = command.page, now
        self._velocity = self._clip(VELOCITY, command.velocity)
        return ""

    def _stop(self, now: float) -> None:
        if self._driver:
            self._driver, self._velocity, self._moved = "", STANDSTILL, now

    def _check_timeout(self, now: float) -> None:
        if self._driver and now - self._commanded > COMMAND_TIMEOUT:
            self._ready.discard(self._driver)
            self._stop(now)

    def _clip(self, fields: tuple[str, ...], values: Triple) -> dict[str, float]:
        return {field: self._ranges[field].clip(value) for field, value in zip(fields, values, strict=True)}


def too_late(seen: float, now: float, limit: float = REQUEST_TIMEOUT) -> str:
    """Return why a page with its newest snapshot at time `seen` [s] has no effect at `now`, or "".

    A request delayed by the network could otherwise move a robot that people have approached in the meantime. A
    snapshot of an earlier run of the server is outdated.
    """
    age = now - seen
    if 0.0 <= age <= limit:
        return ""
    words = f"{age:.1f} s old, the limit is {limit:g} s" if age >= 0.0 else "outdated"
    return f"nothing was sent to the robot: this page's snapshot is {words}; look at it, and try again"
