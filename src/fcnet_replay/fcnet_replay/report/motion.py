"""The sections of a report that show a walk, the same for a recorded run and for an episode in the simulator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.document import table, text
from fcnet_core.document.plots import Line, Plot, Plots
from fcnet_core.robot import JOINT_NAMES
from fcnet_core.rotation import GRAVITY, roll_pitch_yaw, tilt
from fcnet_replay.metrics import (
    AXES,
    FULL,
    body_motion,
    command_tracking,
    root_mean_square,
    spread,
    tracking_error,
    velocities,
)
from fcnet_replay.report.frame import Section
from fcnet_replay.report.gait import TIME, gait
from fcnet_replay.report.playback import Ground, playback, rate
from fcnet_replay.report.signals import Signals
from fcnet_replay.report.terms import QUANTILES, VELOCITIES, number

JOINTS = "Joints: target, measured and torque"  # a heading
MEASURED, COMMANDED = 0, 1  # colours
# What lines are rounded to, in their units.
SPEED, METRE, RADIAN, DEGREE, TORQUE, WATT = 0.001, 0.0005, 0.0005, 0.02, 0.02, 0.2
PATH_POINTS = 4000
NO_ODOM = "the run has no odom"
NO_TORQUE = "the run has no torques"


def motion_sections(signals: Signals, plots: Plots, group: str, ground: Ground | None = None) -> list[Section]:
    """Headings and elements: playback, gait, path, velocity, height and attitude, joints, power."""
    return [
        ("Playback", [text(_about(signals)), playback(signals, plots, group, ground)]),
        ("Gait and contacts", list(gait(signals, plots, group))),
        ("Path", list(_path(signals, plots, group))),
        ("Velocity, commanded and measured", list(_velocity(signals, plots, group))),
        ("Height and attitude", list(_body(signals, plots, group))),
        (JOINTS, list(_joints(signals, plots, group))),
        ("Power", list(_power(signals, plots, group))),
    ]


def _about(signals: Signals) -> str:
    """What the reader can do, and what was left out of the data."""
    grid = signals.grid
    points = (
        f"Of {len(signals.run.joints.stamp):,} states the plots show the smallest and the largest value in every "
        f"{2e3 * grid.step:.0f} ms; no peak is lost."
        if signals.decimated
        else f"The plots show every one of {len(signals.run.joints.stamp):,} states."
    )
    known = np.isfinite(signals.run.odometry.position).all(axis=1).any()
    place = "" if known else f" The robot walks on the spot, because {NO_ODOM}."
    return (
        "Drag over a part of a plot to see it larger in all of them, double-click to see all again; a click takes the "
        f"robot to that time. {points} The playback has {rate(signals):.0f} poses a second.{place}"
    )


def _line(signals: Signals, label: str, time: Array, values: Array, colour: int, step: float) -> Line:
    return Line(label, signals.over_time(time, values)[:, 0], colour, step)


def _path(signals: Signals, plots: Plots, group: str) -> Iterator[str]:
    odometry = signals.run.odometry
    good = np.isfinite(odometry.position).all(axis=1) & np.isfinite(odometry.stamp)
    if not good.any():
        yield text(f"The path is not known: {NO_ODOM}.")
        return
    time, position = signals.at(odometry.stamp[good]), odometry.position[good]
    order = np.argsort(time, kind="stable")
    time, position = time[order], position[order]
    places = np.linspace(0.0, signals.seconds, PATH_POINTS)
    x, y = (np.interp(places, time, position[:, axis], left=np.nan, right=np.nan) for axis in (0, 1))
    way = float(np.hypot(*np.diff(position[:, :2], axis=0).T).sum())
    away = float(np.hypot(*(position[-1, :2] - position[0, :2])))
    yield text(f"Seen from above. It begins at the green spot; {way:.1f} m of way end {away:.1f} m from there.")
    yield plots.element(
        Plot("Path, y over x", "x [m]", "m", x, [Line("trunk", y, MEASURED)], scale="path", group=group, height=340)
    )


def _velocity(signals: Signals, plots: Plots, group: str) -> Iterator[str]:
    velocity = velocities(signals.run)
    tracking = command_tracking(velocity)
    if tracking is None:
        yield text(f"How well commands were followed is not known: {NO_ODOM}.")
    else:
        rows = [
            [f"{name} [{unit}]", number(tracking[axis]["rmse"], ".3f"), number(tracking[axis]["mean"], "+.3f")]
            for axis, (name, unit) in zip(AXES, VELOCITIES.items(), strict=True)
        ]
        yield table(["tracking error", "RMS", "mean"], rows)
    time = signals.at(velocity.time)
    for column, (name, unit) in enumerate(VELOCITIES.items()):
        lines = [_line(signals, "commanded", time, velocity.commanded[:, column], COMMANDED, SPEED)]
        if velocity.measured is not None:
            lines.insert(0, _line(signals, "measured", time, velocity.measured[:, column], MEASURED, SPEED))
        yield plots.element(Plot(name.capitalize(), TIME, unit, signals.grid, lines, group=group, height=150))


def _body(signals: Signals, plots: Plots, group: str) -> Iterator[str]:
    run, robot, time = signals.run, signals.robot, signals.joint_time
    attitude = np.degrees(roll_pitch_yaw(run.imu.orientation))
    commanded_time, commanded = _commanded_pose(signals)
    largest = ("limit of the safety layer", float(np.degrees(robot.safety.max_tilt)))
    leaning = np.degrees(spread_of(tilt(run.imu.orientation)))
    yield table(
        ["", *QUANTILES.values()],
        [
            ["tilt [°]", *(number(value, ".1f") for value in leaning)],
            ["height [m]", *(number(value, ".3f") for value in spread_of(signals.height))],
        ],
    )
    yield plots.element(
        Plot(
            "Height",
            TIME,
            "m",
            signals.grid,
            [
                _line(signals, "measured", time, signals.height, MEASURED, METRE),
                _line(signals, "commanded", commanded_time, robot.nominal_height + commanded[:, 0], COMMANDED, METRE),
            ],
            group=group,
            height=150,
        )
    )
    for column, name in enumerate(("Roll", "Pitch")):
        yield plots.element(
            Plot(
                name,
                TIME,
                "°",
                signals.grid,
                [
                    _line(signals, "measured", signals.at(run.imu.stamp), attitude[:, column], MEASURED, DEGREE),
                    _line(
                        signals, "commanded", commanded_time, np.degrees(commanded[:, 1 + column]), COMMANDED, DEGREE
                    ),
                ],
                group=group,
                height=150,
            )
        )
    yield plots.element(
        Plot(
            "Tilt",
            TIME,
            "°",
            signals.grid,
            [
                _line(
                    signals, "tilt", signals.at(run.imu.stamp), np.degrees(tilt(run.imu.orientation)), MEASURED, DEGREE
                )
            ],
            limits=[largest],
            zero=True,
            group=group,
            height=150,
        )
    )


def _commanded_pose(signals: Signals) -> tuple[Array, Array]:
    """Times (T,) [s], and the commanded height offset [m], roll and pitch [rad] (T, 3)."""
    run = signals.run
    if len(run.steps.target_stamp):
        return signals.at(run.steps.target_stamp), run.steps.command[:, 3:6]
    walking = signals.walking
    return signals.joint_time[walking], run.setpoints.at(run.joints.received[walking])[:, 3:6]


def _joints(signals: Signals, plots: Plots, group: str) -> Iterator[str]:
    run, robot = signals.run, signals.robot
    target = signals.over_time(signals.joint_time, signals.target)
    position = signals.over_time(signals.joint_time, run.joints.position)
    effort = signals.over_time(signals.joint_time, run.joints.effort)
    motion, error = body_motion(run, robot), tracking_error(run)
    torque = np.abs(run.joints.effort)
    rows = []
    for joint, name in enumerate(JOINT_NAMES):
        cells = [number(root_mean_square(error[:, joint]), ".3f")]
        if signals.has_torque:
            cells += [number(root_mean_square(torque[:, joint]), ".1f")]
            cells += [number(value, ".1f") for value in list(spread_of(torque[:, joint]))[2:]]
            limit = float(robot.torque_limit[joint])
            cells += [
                number(limit, ".1f"),
                number(float((torque[:, joint] >= FULL * limit).mean()), ".1f", " %", 100.0),
            ]
        rows.append([name.removesuffix("_joint").replace("_", " "), *cells])
    heads = ["joint", "tracking error, RMS [rad]"]
    if signals.has_torque:
        heads += ["torque, RMS [Nm]", "99 %", "largest", "limit", "time at limit"]
    else:
        yield text(f"Torque is not known: {NO_TORQUE}.")
    yield table(heads, rows)
    share = number(motion["share_of_targets_at_position_limit"], ".1f", " %", 100.0)
    yield text(f"Share of the targets with a joint at its position limit: {share}.")
    yield '<div class="columns">'
    for joint, name in enumerate(JOINT_NAMES):
        lines = [
            Line("measured", position[:, joint], MEASURED, RADIAN),
            Line("target", target[:, joint], COMMANDED, RADIAN),
        ]
        if signals.has_torque:
            lines.append(Line("torque", effort[:, joint], 3, TORQUE, right=True))
        title = name.removesuffix("_joint").replace("_", " ")
        yield plots.element(Plot(title, TIME, "rad", signals.grid, lines, group=group, unit_right="Nm", height=180))
    yield "</div>"


def _power(signals: Signals, plots: Plots, group: str) -> Iterator[str]:
    if not signals.has_torque:
        yield text(f"Power is not known: {NO_TORQUE}.")
        return
    joints, robot = signals.run.joints, signals.robot
    power = signals.power
    figures = [float(np.nanmean(power)), *spread_of(power)]
    yield table(["", "mean", *QUANTILES.values()], [["power [W]", *(number(value, ".0f") for value in figures)]])
    if (cost := cost_of_transport(signals)) is not None:
        yield text(f"Cost of transport while walking: {cost:.2f}.")
    limit = ("limit of the safety layer", robot.safety.max_power)
    lines = [_line(signals, "power", signals.at(joints.stamp), power, MEASURED, WATT)]
    yield plots.element(Plot("Power", TIME, "W", signals.grid, lines, limits=[limit], zero=True, group=group))


def cost_of_transport(signals: Signals) -> float | None:
    """Positive mechanical work of the joints per weight and distance, while walking; None without odom or way."""
    joints, odometry = signals.run.joints, signals.run.odometry
    good = np.isfinite(odometry.velocity).all(axis=1) & np.isfinite(odometry.stamp)
    if good.sum() < 2:
        return None
    order = np.argsort(signals.joint_time, kind="stable")
    time, walking = signals.joint_time[order], signals.walking[order]
    dt = np.clip(np.diff(time, append=time[-1]), 0.0, 0.1) * walking
    stamp = signals.at(odometry.stamp[good])
    by_stamp = np.argsort(stamp, kind="stable")
    speed = np.interp(time, stamp[by_stamp], np.hypot(*odometry.velocity[good][by_stamp, :2].T))
    way = float((speed * dt).sum())
    work = float(np.nansum(np.maximum(joints.effort * joints.velocity, 0.0).sum(axis=1)[order] * dt))
    return work / (GRAVITY * signals.robot.mass * way) if way > 0.5 else None


def spread_of(values: Array) -> Sequence[float]:
    """Median, 95 %, 99 % and largest of the finite values; NaN where there are none."""
    return [np.nan if value is None else value for value in spread(values).values()]
