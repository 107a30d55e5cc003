"""The sections of a report that show a walk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fcnet_core.arrays import Array, Mask
from fcnet_core.document import table, text
from fcnet_core.document.plots import Bars, Line, Plot
from fcnet_core.names import Mode
from fcnet_core.robot import LEGS
from fcnet_core.rotation import GRAVITY, roll_pitch_yaw, tilt
from fcnet_replay.metrics import (
    AXES,
    FULL,
    body_motion,
    command_tracking,
    quantiles,
    root_mean_square,
    tracking_error,
    velocities,
)
from fcnet_replay.report.playback import playback, rate
from fcnet_replay.report.signals import GROUP, TIME, Signals, TimePlots, joint_title, number, numbers, spans_of

QUANTILES = {"p50": "median", "p95": "95 %", "p99": "99 %", "max": "largest"}
VELOCITIES = {"forward": "m/s", "sideways": "m/s", "yaw rate": "rad/s"}  # in the trunk's frame
Section = tuple[str, list[str]]  # heading and elements in HTML
JOINTS = "Joints: target, measured and torque"  # a heading
MEASURED, COMMANDED = 0, 1  # colours
# Steps to which lines are rounded, in their units.
SPEED, METRE, RADIAN, DEGREE, TORQUE, WATT = 0.001, 0.0005, 0.0005, 0.02, 0.02, 0.2
PATH_POINTS = 4000
LIMIT = "limit of the safety layer"
NO_ODOM = "the run has no odom"
NO_TORQUE = "the run has no torques"
MODE_COLOURS = {
    Mode.PASSIVE.value: 0,
    Mode.STANDING_UP.value: 5,
    Mode.STANDING.value: 4,
    Mode.WALKING.value: 3,
    Mode.LYING_DOWN.value: 5,
    Mode.RECOVERING.value: 2,
    Mode.FAULT.value: 2,
}
LEAST = 1.0  # [s] of walking, below which a gait has no figures
WITHOUT = "The gait is not known: the run has no torques, by which contacts are estimated."
NO_LEGS = "Contacts are not known: the robot's file describes no legs."
ESTIMATED = "Coloured: the foot is in contact, by an estimate from joints, torques and IMU."


def motion_sections(view: TimePlots) -> list[Section]:
    """Return the sections on playback, gait, path, velocity, height and attitude, joints, and power."""
    scene = [playback(view)] if view.signals.has_legs else []
    return [
        ("Playback" if scene else "Plots", [text(_about(view.signals)), *scene]),
        ("Gait and contacts", list(_gait(view))),
        ("Path", list(_path(view))),
        ("Velocity, commanded and measured", list(_velocity(view))),
        ("Height and attitude", list(_body(view))),
        (JOINTS, list(_joints(view))),
        ("Power", list(_power(view))),
    ]


def _about(signals: Signals) -> str:
    """Return how to use plots and playback, and how much of the data they show."""
    grid = signals.grid
    points = (
        f"Of {len(signals.run.joints.stamp):,} states the plots show the smallest and the largest value in every "
        f"{2e3 * grid.step:.0f} ms; no peak is lost."
        if len(signals.run.joints.stamp) > 1.1 * grid.count
        else f"The plots show every one of {len(signals.run.joints.stamp):,} states."
    )
    known = len(signals.run.odometry.known("position").stamp)
    place = "" if known else f" The robot walks on the spot, because {NO_ODOM}."
    zoom = "Drag over a part of a plot to see it larger in all of them, double-click to see all again"
    if not signals.has_legs:
        return f"{zoom}. {points} There is no playback: the robot's file describes no legs."
    poses = f"The playback has {rate(signals):.0f} poses a second."
    return f"{zoom}; a click takes the robot to that time. {points} {poses}{place}"


def _gait(view: TimePlots) -> Iterator[str]:
    """Yield the diagram of modes and contacts, and a table of each leg's figures while it walks."""
    signals, bars, rows = view.signals, [], []
    modes = signals.mode_spans()
    for name, spans in modes.items():
        bars.append(Bars(name.replace("_", " "), spans, MODE_COLOURS.get(name, 0)))
    rows += ["mode"] if modes else []
    known = signals.has_legs and signals.has_torque
    if known:
        time = np.sort(signals.joint_time)
        for leg, name in enumerate(LEGS):
            bars.append(Bars("in contact", spans_of(time, signals.contact[:, leg]), 1, len(rows)))
            rows.append(name)
    yield text(ESTIMATED if known else WITHOUT if signals.has_legs else NO_LEGS)
    ends, height = signals.grid.values[[0, -1]], 60 + 24 * len(rows)
    yield view.plots.element(
        Plot("Modes and contacts", TIME, "", ends, bars=bars, rows=rows, group=GROUP, height=height)
    )
    if not known:
        return
    figures = gait_figures(signals)
    if figures is None:
        yield text(f"The robot walks for less than {LEAST:g} s: the gait has no figures.")
        return
    cells = [
        [name, number(leg["duty"], ".1f", " %", 100.0), number(leg["touchdowns_per_s"], ".2f")]
        + numbers(leg, ("stance_s", "swing_s"), ".3f")
        for name, leg in figures.items()
    ]
    yield table(["leg", "duty", "touchdowns per second", "stance [s]", "swing [s]"], cells)


def gait_figures(signals: Signals) -> dict[str, Any] | None:
    """Return duty, touchdowns per second, mean stance and swing [s] of each leg; None if the robot walks for less than
    LEAST.
    """
    time, walking, dt = signals.joint_time[signals.order], signals.walking[signals.order], signals.walking_time
    total = float(dt.sum())
    if total < LEAST:
        return None
    legs = {}
    for leg, name in enumerate(LEGS):
        contact = signals.contact[:, leg]
        landed = contact & ~np.append(True, contact[:-1]) & walking
        legs[name] = {
            "duty": float((dt * contact).sum() / total),
            "touchdowns_per_s": float(landed.sum() / total),
            "stance_s": _mean_length(time, contact, walking),
            "swing_s": _mean_length(time, ~contact, walking),
        }
    return legs


def _mean_length(time: Array, holds: Mask, walking: Mask) -> float | None:
    """Return the mean length [s] of the spans that lie within walking."""
    spans = spans_of(time, holds & walking)
    edge = spans_of(time, walking)
    whole = ~np.isin(spans[:, 0], edge[:, 0]) & ~np.isin(spans[:, 1], edge[:, 1])
    return float(np.diff(spans[whole], axis=1).mean()) if whole.any() else None


def _path(view: TimePlots) -> Iterator[str]:
    signals, odometry = view.signals, view.signals.run.odometry.known("position")
    if not len(odometry.stamp):
        yield text(f"The path is not known: {NO_ODOM}.")
        return
    time, position = signals.at(odometry.stamp), odometry.position
    places = np.linspace(0.0, signals.seconds, PATH_POINTS)
    x, y = (np.interp(places, time, position[:, axis], left=np.nan, right=np.nan) for axis in (0, 1))
    way = float(np.hypot(*np.diff(position[:, :2], axis=0).T).sum())
    away = float(np.hypot(*(position[-1, :2] - position[0, :2])))
    yield text(f"Seen from above. It begins at the green spot; {way:.1f} m of way end {away:.1f} m from there.")
    path = [Line("trunk", y, MEASURED)]
    yield view.plots.element(Plot("Path, y over x", "x [m]", "m", x, path, scale="path", group=GROUP, height=340))


def _velocity(view: TimePlots) -> Iterator[str]:
    velocity = velocities(view.signals.run)
    tracking = command_tracking(velocity)
    if tracking is None:
        yield text(f"How well commands were followed is not known: {NO_ODOM}.")
    else:
        rows = [
            [f"{name} [{unit}]", number(tracking[axis]["rmse"], ".3f"), number(tracking[axis]["mean"], "+.3f")]
            for axis, (name, unit) in zip(AXES, VELOCITIES.items(), strict=True)
        ]
        yield table(["tracking error", "RMS", "mean"], rows)
    time = view.signals.at(velocity.time)
    for column, (name, unit) in enumerate(VELOCITIES.items()):
        lines = [view.line("commanded", time, velocity.commanded[:, column], COMMANDED, SPEED)]
        if velocity.measured is not None:
            lines.insert(0, view.line("measured", time, velocity.measured[:, column], MEASURED, SPEED))
        yield view.plot(name.capitalize(), unit, lines)


def _body(view: TimePlots) -> Iterator[str]:
    signals, run, robot = view.signals, view.signals.run, view.signals.robot
    imu_time, attitude, leaning = (
        signals.at(run.imu.stamp),
        roll_pitch_yaw(run.imu.orientation),
        tilt(run.imu.orientation),
    )
    commanded_time, commanded = _commanded_pose(signals)
    rows, pairs = [["tilt [°]", *numbers(quantiles(np.degrees(leaning)), QUANTILES, ".1f")]], []
    if signals.has_legs:
        rows.append(["height [m]", *numbers(quantiles(signals.height), QUANTILES, ".3f")])
        height = robot.nominal_height + commanded[:, 0]
        pairs.append(("Height", "m", METRE, signals.joint_time, signals.height, height))
    yield table(["", *QUANTILES.values()], rows)
    for column, name in enumerate(("Roll", "Pitch")):
        measured, wanted = np.degrees(attitude[:, column]), np.degrees(commanded[:, 1 + column])
        pairs.append((name, "°", DEGREE, imu_time, measured, wanted))
    for name, unit, step, time, measured, wanted in pairs:
        lines = [
            view.line("measured", time, measured, MEASURED, step),
            view.line("commanded", commanded_time, wanted, COMMANDED, step),
        ]
        yield view.plot(name, unit, lines)
    lines = [view.line("tilt", imu_time, np.degrees(leaning), MEASURED, DEGREE)]
    limit = (LIMIT, float(np.degrees(robot.safety.max_tilt)))
    yield view.plot("Tilt", "°", lines, limits=[limit], zero=True)


def _commanded_pose(signals: Signals) -> tuple[Array, Array]:
    """Return times (T,) [s], and the commanded height offset [m], roll and pitch [rad] (T, 3)."""
    run = signals.run
    if len(run.steps.target_stamp):
        return signals.at(run.steps.target_stamp), run.steps.setpoint[:, 3:6]
    walking = signals.walking
    return signals.joint_time[walking], run.setpoints.at(run.joints.received[walking])[:, 3:6]


def _joints(view: TimePlots) -> Iterator[str]:
    signals, run, robot = view.signals, view.signals.run, view.signals.robot
    error, torque = tracking_error(run), np.abs(run.joints.effort)
    heads = ["joint", "tracking error, RMS [rad]"]
    if signals.has_torque:
        heads += ["torque, RMS [Nm]", "99 %", "largest", "limit", "time at limit"]
    else:
        yield text(f"Torque is not known: {NO_TORQUE}.")
    rows = []
    for joint, name in enumerate(run.joint_names):
        cells = [joint_title(name), number(root_mean_square(error[:, joint]), ".3f")]
        if signals.has_torque:
            limit = float(robot.torque_limit[joint])
            cells += [
                number(root_mean_square(torque[:, joint]), ".1f"),
                *numbers(quantiles(torque[:, joint]), ("p99", "max"), ".1f"),
                number(limit, ".1f"),
                number(float((torque[:, joint] >= FULL * limit).mean()), ".1f", " %", 100.0),
            ]
        rows.append(cells)
    yield table(heads, rows)
    share = number(body_motion(run, robot)["share_of_targets_at_position_limit"], ".1f", " %", 100.0)
    yield text(f"Share of the targets with a joint at its position limit: {share}.")
    position, target, effort = (
        signals.over_time(signals.joint_time, values)
        for values in (run.joints.position, signals.target, run.joints.effort)
    )

    def lines(joint: int) -> list[Line]:
        shown = [
            Line("measured", position[:, joint], MEASURED, RADIAN),
            Line("target", target[:, joint], COMMANDED, RADIAN),
        ]
        return [*shown, Line("torque", effort[:, joint], 3, TORQUE, right=True)] if signals.has_torque else shown

    yield from view.of_joints(180, lines, unit_right="Nm")


def _power(view: TimePlots) -> Iterator[str]:
    signals, power = view.signals, view.signals.power
    if not signals.has_torque:
        yield text(f"Power is not known: {NO_TORQUE}.")
        return
    cells = [number(float(np.nanmean(power)), ".0f"), *numbers(quantiles(power), QUANTILES, ".0f")]
    yield table(["", "mean", *QUANTILES.values()], [["power [W]", *cells]])
    if (cost := cost_of_transport(signals)) is not None:
        yield text(f"Cost of transport while walking: {cost:.2f}.")
    lines = [view.line("power", signals.joint_time, power, MEASURED, WATT)]
    most = signals.robot.safety.max_power
    limits = [(LIMIT, most)] if np.isfinite(most) else []
    yield view.plot("Power", "W", lines, height=190, limits=limits, zero=True)


def cost_of_transport(signals: Signals) -> float | None:
    """Return the positive mechanical work of the joints per weight and distance, while walking.

    None without odom or a known mass, or if the robot walks less than 0.5 m.
    """
    joints, odometry = signals.run.joints, signals.run.odometry.known("velocity")
    if len(odometry.stamp) < 2 or not signals.has_legs:
        return None
    order, time, dt = signals.order, signals.joint_time[signals.order], signals.walking_time
    speed = np.interp(time, signals.at(odometry.stamp), np.hypot(*odometry.velocity[:, :2].T))
    way = float((speed * dt).sum())
    work = float(np.nansum(np.maximum(joints.effort * joints.velocity, 0.0).sum(axis=1)[order] * dt))
    return work / (GRAVITY * signals.robot.mass * way) if way > 0.5 else None
