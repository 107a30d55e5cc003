"""The command envelope: the joint range of a policy's trained setpoints, as a table over forward velocity."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from fcnet_core.arrays import Array, Floats
from fcnet_core.files import Number
from fcnet_core.robot import SETPOINT_FIELDS, CommandRange

FIELDS = SETPOINT_FIELDS[1:]  # with a range at every vx
VELOCITIES = 2  # of FIELDS: vy, yaw_rate; pose and style follow
MOST_KNOTS = 100
SPACING = 0.3  # [m/s] maximum distance between two knots of a derived envelope
WINDOW = 0.075  # [m/s] setpoints so near to a knot belong to the knot
HELD = 5.0  # [s] summed over robots; setpoints commanded for less time do not count as trained
PARTLY = 0.5  # share of the reach at rest below which a field counts as not used in walking
ALIKE = 0.85  # share of the reach at rest above which a smaller reach counts as equal
DECIMALS = 3
EXACT = 1e-9  # rounding of a sum, and of shares found by bisection
TINY = 1e-12  # rounding of an interpolated range


class Envelope(Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """Ranges of all other setpoint fields over forward velocity, linear between knots.

    vx: rising knots [m/s], including 0; ranges: one (lowest, highest) per knot for each of FIELDS. A setpoint is
    admitted if vx is between the outermost knots and every other field is in its range at that vx. Every range contains
    0 and is not wider than its neighbour towards vx = 0, so shortening a velocity along its direction reaches an
    admitted one.
    """

    vx: Annotated[tuple[Number, ...], Meta(min_length=1, max_length=MOST_KNOTS)]
    ranges: dict[str, tuple[tuple[Number, Number], ...]]

    def __post_init__(self) -> None:
        if 0.0 not in self.vx or any(slow >= fast for slow, fast in pairwise(self.vx)):
            raise ValueError(f"vx must rise from knot to knot and pass 0, but is {', '.join(map(str, self.vx))}")
        if odd := sorted(set(self.ranges) ^ set(FIELDS)):
            raise ValueError(f"ranges must be given for exactly {', '.join(FIELDS)}; see {odd[0]}")
        for field, ranges in self.ranges.items():
            if len(ranges) != len(self.vx):
                raise ValueError(f"{len(ranges)} ranges of {field} for {len(self.vx)} knots of vx")
            if not all(low <= 0.0 <= high for low, high in ranges):
                raise ValueError(f"every range of {field} must contain 0, so that a robot may stand")
            rest = self.vx.index(0.0)
            for slow, fast in (*pairwise(range(rest, len(ranges))), *pairwise(range(rest, -1, -1))):
                if ranges[fast][0] < ranges[slow][0] or ranges[fast][1] > ranges[slow][1]:
                    raise ValueError(f"the range of {field} is wider at vx {self.vx[fast]} than at {self.vx[slow]}")

    @classmethod
    def from_setpoints(
        cls, setpoints: Iterable[Floats], control_rate: float, ranges: Mapping[str, CommandRange]
    ) -> Envelope | None:
        """Derive the envelope of setpoints that were commanded for at least HELD seconds, within `ranges`.

        setpoints: arrays (N, 9) in SETPOINT_FIELDS order, at control_rate [Hz], of all data in parts. They are read
        twice, one part at a time. Returns None if no knot has enough data; knots with too few data are left out.
        """
        needed = math.ceil(HELD * control_rate)  # setpoints
        lowest, highest = np.array([[ranges[field].lowest, ranges[field].highest] for field in SETPOINT_FIELDS]).T
        forward: Floats = np.empty((0, 1))
        for part in setpoints:
            forward = _extremes(forward, np.clip(part[:, :1], lowest[0], highest[0]), 2 * needed)
        if len(forward) < 4 * needed:
            return None
        ends = _ends(forward, 2 * needed)[0].tolist()
        sides = [np.linspace(0.0, end, math.ceil(abs(end) / SPACING) + 1) for end in ends]
        knots = np.unique(np.round(np.concatenate(sides), DECIMALS) + 0.0)
        nothing: Floats = np.empty((0, len(FIELDS)))
        kept = dict.fromkeys(np.clip(knots, lowest[0], highest[0]).tolist(), nothing)
        for part in setpoints:
            clipped = np.clip(part, lowest, highest)
            for knot, before in kept.items():
                near = np.abs(clipped[:, 0] - knot) <= WINDOW
                kept[knot] = _extremes(before, clipped[near, 1:], needed)
        measured = {knot: _ends(values, needed) for knot, values in kept.items() if len(values) >= 2 * needed}
        if not measured:
            return None
        slowest = min(measured, key=abs)
        measured.setdefault(0.0, measured[slowest])
        vx = sorted(measured)
        reach = _monotone_reach(np.array([measured[knot] for knot in vx]), rest=vx.index(0.0))
        reach = np.clip(np.round(reach, DECIMALS) + 0.0, lowest[1:, None], highest[1:, None])
        by_field = {field: tuple(map(tuple, reach[:, index].tolist())) for index, field in enumerate(FIELDS)}
        return cls(tuple(vx), by_field)

    @cached_property
    def table(self) -> Array:
        """Lowest and highest value (K, 8, 2) of FIELDS at every knot."""
        return np.stack([np.array(self.ranges[field], dtype=np.float64) for field in FIELDS], axis=1)

    @cached_property
    def outermost(self) -> dict[str, tuple[float, float]]:
        """Lowest and highest admitted value of every setpoint field."""
        return {"vx": (self.vx[0], self.vx[-1]), **dict(zip(FIELDS, self._rest, strict=True))}

    def shorten(self, requested: Array) -> Array:
        """Return admitted setpoints (B, 9) for requested ones.

        Clips vx to the outermost knots, and pose and style to the ranges at rest; then shortens the velocity (vx, vy,
        yaw rate) along its direction until the setpoint is admitted.
        """
        return np.array([self._shortened(setpoint) for setpoint in requested.tolist()])

    def follow(self, before: Array, moved: Array, step: list[float]) -> Array:
        """Return admitted setpoints (B, 9) between the admitted `before` and `moved`, in steps of at most `step` (9).

        A pose waits until vx is small enough, and vx waits until the pose is small enough.
        """
        pairs = zip(before.tolist(), moved.tolist(), strict=True)
        return np.array([self._followed(old, new, step) for old, new in pairs])

    def lines(self) -> Iterator[str]:
        """Yield the table as text, one line per knot."""
        yield f"{'vx':>7}" + "".join(f"{field:>15}" for field in FIELDS)
        for vx, row in zip(self.vx, self.table.tolist(), strict=True):
            yield f"{vx:>7.2f}" + "".join(f"{low:>8.2f}{high:>7.2f}" for low, high in row)

    # One setpoint at a time, in plain floats: on so few numbers, one NumPy operation takes as long as all of this.

    @cached_property
    def _segments(self) -> tuple[list[float], list[list[tuple[float, ...]]]]:
        """Inner knots; by segment and field its first knot, lowest and highest value there, and their slopes."""
        vx, table = np.array(self.vx), self.table
        run = np.diff(vx, append=vx[-1] + 1.0)  # behind the last knot the ranges stay
        slopes = np.diff(table, axis=0, append=table[-1:]) / run[:, None, None]
        knots = np.broadcast_to(vx[:, None, None], (*table.shape[:2], 1))
        rows = np.concatenate([knots, table, slopes], axis=-1).tolist()
        return list(self.vx[1:-1]), [[tuple(field) for field in row] for row in rows]

    @cached_property
    def _rest(self) -> list[tuple[float, float]]:
        return [self.ranges[field][self.vx.index(0.0)] for field in FIELDS]

    def _ends(self, vx: float) -> list[tuple[float, float]]:
        """Return the lowest and highest value of FIELDS at vx [m/s]."""
        inner, segments = self._segments
        return [
            (low + (vx - knot) * low_slope, high + (vx - knot) * high_slope)
            for knot, low, high, low_slope, high_slope in segments[bisect_left(inner, vx)]
        ]

    def _shortened(self, requested: list[float]) -> list[float]:
        pose = [min(max(v, low), high) for v, (low, high) in zip(requested[3:], self._rest[VELOCITIES:], strict=True)]
        vx, *others = min(max(requested[0], self.vx[0]), self.vx[-1]), *requested[1:3]

        def at(share: float) -> list[float] | None:
            setpoint = [share * vx, *(share * value for value in others), *pose]
            inside = zip(setpoint[1:], self._ends(share * vx), strict=True)
            return setpoint if all(low - TINY <= value <= high + TINY for value, (low, high) in inside) else None

        return _furthest(at, [0.0, 0.0, 0.0, *pose])

    def _followed(self, before: list[float], moved: list[float], step: list[float]) -> list[float]:
        def at(share: float) -> list[float] | None:
            vx = before[0] + share * (moved[0] - before[0])
            clipped = [min(max(v, low), high) for v, (low, high) in zip(moved[1:], self._ends(vx), strict=True)]
            ways = zip(clipped, before[1:], step[1:], strict=True)
            return [vx, *clipped] if all(abs(new - old) <= most + EXACT for new, old, most in ways) else None

        return _furthest(at, before)


def _furthest(at: Callable[[float], list[float] | None], rest: list[float]) -> list[float]:
    """Return the setpoint `at` the largest share up to 1 that has one, by bisection; `rest` is that of share 0."""
    best, low, high = at(1.0), 0.0, 1.0
    if best is not None:
        return best
    while high - low > EXACT:
        middle = 0.5 * (low + high)
        found = at(middle)
        best, low, high = (best, low, middle) if found is None else (found, middle, high)
    return best or rest


def _extremes(kept: Floats, values: Floats, count: int) -> Floats:
    """Return the `count` lowest and the `count` highest of both (N, F), per column; all of up to 2 x count."""
    both = np.concatenate([kept, values])
    if len(both) <= 2 * count:
        return both
    both = np.partition(both, [count - 1, len(both) - count], axis=0)
    return np.concatenate([both[:count], both[-count:]])


def _ends(extremes: Floats, count: int) -> Array:
    """Return lowest and highest value (F, 2) that `count` values reach, at least up to 0."""
    ordered = np.sort(extremes, axis=0)
    return np.stack([np.minimum(ordered[count - 1], 0.0), np.maximum(ordered[-count], 0.0)], axis=1)


def _monotone_reach(reach: Array, rest: int) -> Array:
    """Return the reach (K, 8, 2) of FIELDS at every knot so that it never grows with the distance from knot `rest`.

    A standing robot often holds poses that it never walks with, which would keep it from walking; so its reach in pose
    and style is cut to the reach at the knots next to rest, except for fields that are not used in walking. A reach
    nearly as large as at rest counts as equal, since random values are rarely close to an end.
    """
    at_rest = reach[rest, VELOCITIES:]
    walking = np.abs(reach[max(rest - 1, 0) : rest + 2, VELOCITIES:]).min(axis=0)  # rest itself included
    walking = np.where(walking < PARTLY * np.abs(at_rest), np.inf, walking)
    reach[rest, VELOCITIES:] = np.minimum(np.maximum(at_rest, -walking), walking)
    reach = np.where(np.abs(reach) >= ALIKE * np.abs(reach[rest]), reach[rest], reach)
    for side in (reach[rest:], reach[rest::-1]):  # views: from rest forward, from rest backward
        np.maximum.accumulate(side[..., 0], out=side[..., 0])
        np.minimum.accumulate(side[..., 1], out=side[..., 1])
    return reach
