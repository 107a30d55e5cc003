"""The command envelope: the setpoints for which a policy was trained, jointly, as a table over forward velocity."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from fcnet_core.arrays import Array, Floats, Mask
from fcnet_core.files import Number
from fcnet_core.robot import SETPOINT_FIELDS, CommandRange

FIELDS = SETPOINT_FIELDS[1:]  # with a range at every vx
VELOCITIES = 2  # of FIELDS: vy, yaw_rate; pose and style follow
MOST_KNOTS = 100
SPACING = 0.3  # [m/s] largest distance between two knots of a derived envelope
WINDOW = 0.075  # [m/s] around a knot: setpoints within it belong to the knot
HELD = 5.0  # [s] of all robots together; setpoints commanded for a shorter time do not count as trained
PARTLY = 0.5  # share of the reach at rest below which a field hardly occurs in walking
ALIKE = 0.85  # share of the reach at rest above which a smaller one is taken as equal
DECIMALS = 3
EXACT = 1e-9  # rounding of a sum
SLOWEST = 1e-9  # [m/s] a smaller vx is zero


class Envelope(Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """Lowest and highest value of every other setpoint field at rising forward velocities, linear between these knots.

    vx: the knots [m/s], 0 among them; ranges: by field of FIELDS one pair for each knot. A setpoint is admitted when vx
    is between the outermost knots and every other field in its range at that vx. Every range contains 0, and none is
    wider than its neighbour on the side of vx = 0, so that a velocity shortened along its direction is admitted from
    some length on.
    """

    vx: Annotated[tuple[Number, ...], Meta(min_length=1, max_length=MOST_KNOTS)]
    ranges: dict[str, tuple[tuple[Number, Number], ...]]

    def __post_init__(self) -> None:
        if 0.0 not in self.vx or any(slow >= fast for slow, fast in pairwise(self.vx)):
            raise ValueError(f"vx must rise from knot to knot and pass 0, but is {', '.join(map(str, self.vx))}")
        if odd := sorted(set(self.ranges) ^ set(FIELDS)):
            raise ValueError(f"ranges must be given for {', '.join(FIELDS)}, and for nothing else; see {odd[0]}")
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
        measured = _measured_reach(setpoints, needed, lowest, highest)
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

    @property
    def outermost(self) -> dict[str, tuple[float, float]]:
        """Lowest and highest admitted value of every setpoint field."""
        rest = self.vx.index(0.0)
        return {"vx": (self.vx[0], self.vx[-1]), **{field: self.ranges[field][rest] for field in FIELDS}}

    def admits(self, setpoints: Array) -> Mask:
        """Which of the setpoints (B, 9) are in it (B,)."""
        vx, others = setpoints[:, :1], setpoints[:, 1:]
        ends = [np.interp(vx[:, 0], self.vx, column) for column in self.table.reshape(len(self.vx), -1).T]
        lowest, highest = np.stack(ends, axis=1).reshape(-1, len(FIELDS), 2).transpose(2, 0, 1)
        inside = (lowest - EXACT <= others) & (others <= highest + EXACT)
        inside = np.hstack([inside, self.vx[0] - EXACT <= vx, vx <= self.vx[-1] + EXACT])
        return np.logical_and.reduce(inside, axis=1)

    def shorten(self, wanted: Array) -> Array:
        """Admitted setpoints (B, 9) for the wanted ones: vx is clipped to the outermost knots, pose and style to what a
        standing robot may have; then the velocity (vx, vy, yaw rate) is shortened along its own direction until all is
        admitted.
        """
        return np.array([self._shortened(setpoint) for setpoint in wanted.tolist()])

    def follow(self, before: Array, moved: Array, step: list[float]) -> Array:
        """Admitted setpoints (B, 9) on the way from admitted ones to `moved`, none of whose fields is farther from
        `before` than its `step` (9): a pose waits until vx is small enough, and vx waits for a pose that is too large.
        """
        pairs = zip(before.tolist(), moved.tolist(), strict=True)
        return np.array([self._followed(old, new, step) for old, new in pairs])

    def lines(self) -> Iterator[str]:
        """The table as text, one line a knot."""
        yield f"{'vx':>7}" + "".join(f"{field:>15}" for field in FIELDS)
        for vx, row in zip(self.vx, self.table.tolist(), strict=True):
            yield f"{vx:>7.2f}" + "".join(f"{low:>8.2f}{high:>7.2f}" for low, high in row)

    # One setpoint at a time, in plain floats: NumPy takes as long for each of its operations on so few numbers as this
    # for all of them.

    @cached_property
    def _segments(self) -> tuple[list[float], list[list[tuple[float, ...]]]]:
        """From knot to knot: where the next one begins, and of every field the knot, the lowest and the highest value
        there, and the slopes of these.
        """
        after = [min(knot + 1, len(self.vx) - 1) for knot in range(len(self.vx))]
        segments = []
        for (knot, vx), then in zip(enumerate(self.vx), after, strict=True):
            run = self.vx[then] - vx or 1.0
            ranges = [(self.ranges[field][knot], self.ranges[field][then]) for field in FIELDS]
            segments.append(
                [(vx, *here, *((b - a) / run for a, b in zip(here, there, strict=True))) for here, there in ranges]
            )
        return list(self.vx[1:-1]), segments

    @cached_property
    def _rest(self) -> list[tuple[float, float]]:
        rest = self.vx.index(0.0)
        return [self.ranges[field][rest] for field in FIELDS]

    def _ends(self, vx: float) -> list[tuple[float, float]]:
        """Lowest and highest value of FIELDS at vx [m/s]."""
        begins, segments = self._segments
        return [
            (low + (vx - knot) * low_slope, high + (vx - knot) * high_slope)
            for knot, low, high, low_slope, high_slope in segments[bisect_left(begins, vx)]
        ]

    @cached_property
    def _outwards(self) -> dict[bool, tuple[list[float], list[tuple[list[float], list[float]]]]]:
        """By whether the robot moves forward: the speeds of the knots from rest on, and how far every field may be
        below and above zero at each.
        """
        rest, found = self.vx.index(0.0), {}
        for forward, side in ((True, slice(rest, None)), (False, slice(rest, None, -1))):
            speeds = [abs(vx) for vx in self.vx[side]]
            ranges = [self.ranges[field][side] for field in FIELDS]
            found[forward] = speeds, [([-low for low, _ in ends], [high for _, high in ends]) for ends in ranges]
        return found

    def _shortened(self, wanted: list[float]) -> list[float]:
        vx = min(max(wanted[0], self.vx[0]), self.vx[-1])
        vx = 0.0 if abs(vx) < SLOWEST else vx
        others = wanted[1 : 1 + VELOCITIES]
        for value, (low, high) in zip(wanted[1 + VELOCITIES :], self._rest[VELOCITIES:], strict=True):
            others.append(low if value < low else high if value > high else value)
        share, (speeds, reaches) = 1.0, self._outwards[vx > 0.0]
        for field, (value, (low, high)) in enumerate(zip(others, self._ends(vx), strict=True)):
            if not low <= value <= high:
                share = min(share, _share(abs(vx), abs(value), field < VELOCITIES, speeds, reaches[field][value > 0.0]))
        return [share * vx, *(share * value for value in others[:VELOCITIES]), *others[VELOCITIES:]]

    def _followed(self, before: list[float], moved: list[float], step: list[float]) -> list[float]:
        vx, followed = moved[0], moved
        for attempt in range(3):
            ends, late = self._ends(vx), []
            followed = [vx]
            for field, (low, high) in enumerate(ends, start=1):
                new, old = moved[field], before[field]
                value = low if new < low else high if new > high else new
                followed.append(value)
                if not -step[field] - EXACT <= value - old <= step[field] + EXACT:
                    late.append(field)
            if not late:
                break
            if attempt:  # a knot lies between, and the ranges are narrower there
                vx = before[0]
            else:
                vx += (before[0] - vx) * self._wait(before, step, late, ends)
        return followed

    def _wait(self, before: list[float], step: list[float], late: list[int], ends: list[tuple[float, float]]) -> float:
        """Which share of its step vx has to wait, so that the fields that are `late` can follow the ranges; `ends` of
        them at the end of the step.
        """
        held, share = self._ends(before[0]), 1.0
        for field in late:
            old, side = before[field], before[field] > 0.0
            inner, outer = abs(held[field - 1][side]), abs(ends[field - 1][side])
            share = min(share, (inner - abs(old) + step[field]) / max(inner - outer, EXACT))
        return 1.0 - max(share, 0.0)


def _share(speed: float, value: float, is_velocity: bool, speeds: list[float], reach: list[float]) -> float:
    """By how much a velocity is to be shortened for one of its fields, or for a pose, not to be beyond its reach.

    speed: of vx; value: of the field, which is beyond. A velocity that grows from zero in its direction passes the
    knots one after another; between two of them value and reach are linear, so the place where they meet is known.
    """
    inner, inner_gap = 0.0, reach[0] - (0.0 if is_velocity else value)
    outwards = zip(speeds[1:], reach[1:], strict=True) if speed else [(1.0, reach[0])]
    for knot, bound in outwards:
        outer = knot / speed if speed else 1.0
        outer_gap = bound - (outer * value if is_velocity else value)
        if outer_gap < -EXACT:
            met = max(inner_gap, 0.0)
            return min(inner + (outer - inner) * met / (met - outer_gap), 1.0)
        inner, inner_gap = outer, outer_gap
    return 1.0


def _measured_reach(setpoints: Iterable[Floats], needed: int, lowest: Floats, highest: Floats) -> dict[float, Array]:
    """Return lowest and highest value (8, 2) of FIELDS by knot of vx, of knots with at least 2 x `needed` setpoints.

    A field reaches as far as `needed` of the setpoints within WINDOW of the knot did. lowest, highest: (9,).
    """
    forward = _Reach(2 * needed, 1)
    for part in setpoints:
        forward.add(np.clip(part[:, :1], lowest[0], highest[0]))
    if forward.seen < 4 * needed:
        return {}
    knots = np.clip(_knots(*forward.ends[0]), lowest[0], highest[0])
    reaches = {knot: _Reach(needed, len(FIELDS)) for knot in knots.tolist()}
    for part in setpoints:
        clipped = np.clip(part, lowest, highest)
        for knot, reach in reaches.items():
            reach.add(clipped[np.abs(clipped[:, 0] - knot) <= WINDOW, 1:])
    return {knot: reach.ends for knot, reach in reaches.items() if reach.seen >= 2 * needed}


def _monotone_reach(reach: Array, rest: int) -> Array:
    """Return the reach (K, 8, 2) of FIELDS at every knot so that it never grows with the distance from knot `rest`.

    A standing robot often holds poses that it never walks with, which would keep it from walking; so its reach in pose
    and style is cut to that of the knots next to rest, except for fields that hardly occur in walking. A reach
    nearly as large as at rest is taken as equal, since random values seldom come near an end.
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


class _Reach:
    """The range that at least `count` added values reach at both ends, by field. seen: number of added values."""

    def __init__(self, count: int, fields: int) -> None:
        self.seen = 0
        self._count = count
        self._low: Floats = np.empty((0, fields))
        self._high: Floats = np.empty((0, fields))

    def add(self, values: Floats) -> None:
        """Values (N, F)."""
        self.seen += len(values)
        self._low = self._least(np.concatenate([self._low, values]))
        self._high = -self._least(-np.concatenate([self._high, values]))

    @property
    def ends(self) -> Array:
        """Lowest and highest value (F, 2) that `count` values reach; 0 is always within. Needs `count` values."""
        return np.stack([np.minimum(self._low.max(0), 0.0), np.maximum(self._high.min(0), 0.0)], axis=1)

    def _least(self, values: Floats) -> Floats:
        return np.partition(values, self._count - 1, axis=0)[: self._count] if len(values) > self._count else values


def _knots(lowest: float, highest: float) -> Array:
    """Evenly spaced from `lowest` to 0 and from 0 to `highest`."""
    parts = [np.linspace(0.0, end, math.ceil(abs(end) / SPACING) + 1) for end in (lowest, highest)]
    return np.unique(np.round(np.concatenate(parts), DECIMALS) + 0.0)
