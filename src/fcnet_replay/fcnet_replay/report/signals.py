"""The signals of a run over one time axis, decimated for a page without loss of peaks, and their plots."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from fcnet_core.arrays import Array, Mask
from fcnet_core.document.plots import Grid, Line, Plot, Plots
from fcnet_core.legs.kinematics import LegKinematics, standing_height
from fcnet_core.names import Mode
from fcnet_core.robot import LEGS, Robot
from fcnet_core.rotation import matrix_from_xyzw
from fcnet_replay.metrics import mode_spans
from fcnet_replay.run import Run, newest

TIME = "time [s]"
GROUP = "time"  # of plots over time, and of the playback
MOST_POINTS = 15_000  # of a line: in 10 minutes, the smallest and largest value of every 80 ms
FINEST = 0.004  # [s] between points, at least
HOLD = 0.1  # [s] for which the last sample is shown without a newer one; then the line breaks
SHORTEST = 0.04  # [s] of a contact or a swing; shorter ones are noise of the estimate


@dataclass(frozen=True)
class Signals:
    """A run by the robot's clock, with zero at its first state, and its plots, which are zoomed together."""

    run: Run
    robot: Robot
    plots: Plots = field(default_factory=Plots)

    @cached_property
    def start(self) -> float:
        """The recorder's time of zero [s]."""
        return float(min(self.run.joints.received.min(), self.run.imu.received.min()))

    @cached_property
    def _zero(self) -> float:  # [s] by the robot's clock
        return float(self.run.by_robots_clock(np.array([self.start]))[0])

    @cached_property
    def seconds(self) -> float:
        """Duration of the run [s]."""
        received = np.concatenate([self.run.joints.received, self.run.imu.received])
        return max(float(self.at(self.run.by_robots_clock(received.max(keepdims=True)))[0]), FINEST)

    def at(self, stamp: Array) -> Array:
        """Times of stamps [s]."""
        return stamp - self._zero

    @cached_property
    def grid(self) -> Grid:
        """Times of the points of lines; each two show the smallest and largest value of their bin."""
        step = max(self.seconds / MOST_POINTS, FINEST)
        return Grid(0.0, step, 2 * max(int(np.ceil(self.seconds / (2 * step))), 1))

    def over_time(self, time: Array, values: Array) -> Array:
        """Resample values (N, K) at times (N,) [s] to the grid (count, K) without losing peaks.

        Each bin of two points shows its smallest and largest value, in the order of its first and last value. Its last
        point is held for HOLD [s] over empty bins; later points are NaN, so the line breaks.
        """
        columns = values[:, None] if values.ndim == 1 else values
        width, bins = 2 * self.grid.step, self.grid.count // 2  # [s] of a bin, number of bins
        inside = np.isfinite(time) & (time >= -FINEST) & (time <= self.seconds + FINEST)
        order = np.flatnonzero(inside)[np.argsort(time[inside], kind="stable")]
        points = np.full((bins, 2, columns.shape[1]), np.nan)
        if not len(order):
            return points.reshape(2 * bins, -1)
        columns = columns[order]
        bin_of = np.minimum((np.clip(time[order], 0.0, None) / width).astype(np.int64), bins - 1)
        first = np.flatnonzero(np.append(True, np.diff(bin_of) > 0))  # of each filled bin
        last = np.append(first[1:], len(bin_of)) - 1
        low, high = np.fmin.reduceat(columns, first), np.fmax.reduceat(columns, first)
        rising = ~(columns[first] > columns[last])
        filled = bin_of[first]
        points[filled, 0] = np.where(rising, low, high)
        points[filled, 1] = np.where(rising, high, low)
        # Hold the newest filled bin over the empty ones after it.
        source = filled[np.maximum(newest(filled.astype(float), np.arange(bins, dtype=float)), 0)]
        age = np.arange(bins) - source
        held = np.flatnonzero((age > 0) & (age * width <= max(HOLD, width)))
        points[held] = points[source[held], 1:]
        return points.reshape(2 * bins, -1)

    @cached_property
    def joint_time(self) -> Array:
        """Times (N,) [s] of the joint states."""
        return self.at(self.run.joints.stamp)

    @cached_property
    def imu_row(self) -> Array:
        """Rows (N,) of the newest IMU messages at the joint states."""
        return np.maximum(newest(self.run.imu.stamp, self.run.joints.stamp), 0)

    @cached_property
    def rotation(self) -> Array:
        """Rotations (N, 3, 3) from trunk to world, by the IMU at the joint states."""
        orientation = self.run.imu.orientation[self.imu_row]
        length = np.linalg.norm(orientation, axis=1, keepdims=True)
        return matrix_from_xyzw(orientation / length)

    @cached_property
    def has_legs(self) -> bool:
        """Whether the robot's file describes legs, from which points, height and contacts follow."""
        return bool(self.robot.legs and self.robot.primitives)

    @cached_property
    def points(self) -> Array:
        """Hip axes, thigh axes, knees and feet (N, 4, 4, 3) [m] in the trunk's frame."""
        return LegKinematics(self.robot).points(self.run.joints.position[:, self.robot.leg_rows])

    @cached_property
    def height(self) -> Array:
        """Height (N,) [m] of the trunk's centre above the lowest foot."""
        return standing_height(self.robot, self.points, self.rotation)

    @cached_property
    def has_torque(self) -> bool:
        """Whether the run has torques."""
        return bool(np.isfinite(self.run.joints.effort).all(axis=1).any())

    @cached_property
    def walking(self) -> Mask:
        """Joint states (N,) at which the controller walks; all if modes are unknown."""
        mode = self.run.mode
        if not mode.modes:
            return np.ones(len(self.joint_time), dtype=np.bool_)
        row = newest(mode.received, self.run.joints.received)  # -1, before the first mode, is the last entry
        return np.array([*(name == Mode.WALKING for name in mode.modes), False])[row]

    @cached_property
    def contact(self) -> Mask:
        """Estimated contacts of the feet (N, 4)."""
        *joints, rate, down = self._contact_inputs
        angles, speeds, torques = (values[:, self.robot.leg_rows] for values in joints)
        raw = LegKinematics(self.robot).contacts(angles, speeds, torques, rate, down)
        return np.column_stack([_without_short(self.joint_time, raw[:, leg]) for leg in range(len(LEGS))])

    @cached_property
    def contact_known(self) -> Mask:
        """States (N,) with all that contacts are estimated from."""
        return np.logical_and.reduce([np.isfinite(values).all(axis=1) for values in self._contact_inputs])

    @property
    def _contact_inputs(self) -> tuple[Array, ...]:
        joints, rate = self.run.joints, self.run.imu.angular_velocity[self.imu_row]
        return joints.position, joints.velocity, joints.effort, rate, self.rotation[:, 2]

    @cached_property
    def target(self) -> Array:
        """Position targets (N, J) [rad] in effect at the joint states; NaN without a target."""
        return self.run.targets_in_effect(HOLD)

    def mode_spans(self) -> dict[str, Array]:
        """Return the spans (M, 2) [s] of each mode, in the order of first appearance."""
        found: dict[str, list[Array]] = {}
        for name, begin, end in mode_spans(self.run):
            found.setdefault(name, []).append(np.clip(self.at(np.array([begin, end])), 0.0, self.seconds))
        return {name: np.array(spans) for name, spans in found.items()}

    def line(self, label: str, time: Array, values: Array, colour: int, step: float | None = None) -> Line:
        """Return a line of values (N,) at times (N,) [s], rounded to multiples of `step`."""
        return Line(label, self.over_time(time, values)[:, 0], colour, step)

    def plot(self, title: str, unit: str, lines: Sequence[Line], height: int = 150, **options: Any) -> str:
        """Return the HTML of one plot over time; options: of Plot."""
        return self.plots.element(Plot(title, TIME, unit, self.grid, lines, group=GROUP, height=height, **options))

    def of_joints(self, height: int, lines: Callable[[int], Sequence[Line]], unit_right: str = "") -> Iterator[str]:
        """Yield the HTML of a plot for each joint, in columns. lines: of a joint, by its index."""
        yield '<div class="columns">'
        for joint, name in enumerate(self.run.joint_names):
            yield self.plot(joint_title(name), "rad", lines(joint), height, unit_right=unit_right)
        yield "</div>"


def spans_of(time: Array, holds: Mask) -> Array:
    """Return the spans (M, 2) of increasing times (N,) in which `holds` (N,) is true without a break."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], holds, [False]]).astype(np.int8)))
    begins, ends = edges[::2], np.minimum(edges[1::2], len(time) - 1)
    return np.column_stack([time[begins], time[ends]]) if len(edges) else np.empty((0, 2))


def _without_short(time: Array, holds: Mask) -> Mask:
    """Return the mask with gaps, then spans, shorter than SHORTEST removed."""
    kept = holds.copy()
    for state in (False, True):
        edges = np.flatnonzero(np.diff(np.concatenate([[not state], kept, [not state]]) == state))
        for begin, end in edges.reshape(-1, 2).tolist():
            if begin > 0 and end < len(time) and time[end] - time[begin] < SHORTEST:
                kept[begin:end] = not state
    return kept


def joint_title(name: str) -> str:
    """Return a joint's name for people."""
    return name.removesuffix("_joint").replace("_", " ")
