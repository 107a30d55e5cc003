"""The sections of a report that show a walk."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fcnet_core.document import table, text
from fcnet_core.document.plots import Bars, Line, Plot
from fcnet_core.names import Mode
from fcnet_core.robot import LEGS
from fcnet_core.rotation import roll_pitch_yaw, tilt
from fcnet_replay import metrics
from fcnet_replay.report.playback import playback, rate
from fcnet_replay.report.signals import GROUP, TIME, Signals, joint_title, number, numbers, spans_of

QUANTILES = {"p50": "median", "p95": "95 %", "p99": "99 %", "max": "largest"}
VELOCITIES = {"forward": "m/s", "sideways": "m/s", "yaw rate": "rad/s"}  # in the trunk's frame
Section = tuple[str, list[str]]  # heading and elements in HTML
JOINTS = "Joints: target, measured and torque"  # a heading
MEASURED, COMMANDED = 0, 1  # colours
# Steps to which lines are rounded, in their units.
SPEED, METRE, RADIAN, DEGREE, TORQUE, WATT = 0.001, 0.0005, 0.0005, 0.02, 0.02, 0.2
LIMIT = "limit of the safety layer"
NO_ODOM = "the run has no odom"
NO_TORQUE = "the run has no torques"
NO_IMU = "the run has no orientation or no angular velocity"
MODE_COLOURS: dict[str, int] = {
    Mode.STANDING_UP: 5,
    Mode.STANDING: 4,
    Mode.WALKING: 3,
    Mode.LYING_DOWN: 5,
    Mode.RECOVERING: 2,
    Mode.FAULT: 2,
}
LEAST = 1.0  # [s] of walking, below which a gait has no figures
NO_LEGS = "Contacts are not known: the robot's file describes no legs."
ESTIMATED = "Coloured: the foot is in contact, by an estimate from joints, torques and IMU."


def motion_sections(signals: Signals) -> list[Section]:
    """Return the sections on playback, gait, path, velocity, height and attitude, joints, and power."""
    scene = [playback(signals)] if signals.has_legs else []
    return [
        ("Playback" if scene else "Plots", [text(_about(signals)), *scene]),
        ("Gait and contacts", list(_gait(signals))),
        ("Path", list(_path(signals))),
        ("Velocity, commanded and measured", list(_velocity(signals))),
        ("Height and attitude", list(_body(signals))),
        (JOINTS, list(_joints(signals))),
        ("Power", list(_power(signals))),
    ]


def _about(signals: Signals) -> str:
    """Return how to use plots and playback, and how much of the data they show."""
    grid, states = signals.grid, len(signals.run.joints.stamp)
    points = f"The plots show every one of {states:,} states."
    if states > 1.1 * grid.count:
        every = f"the smallest and the largest value in every {2e3 * grid.step:.0f} ms; no peak is lost"
        points = f"Of {states:,} states the plots show {every}."
    zoom = "Drag over a part of a plot to see it larger in all of them, double-click to see all again"
    if not signals.has_legs:
        return f"{zoom}. {points} There is no playback: the robot's file describes no legs."
    known = len(signals.run.odometry.known("position").stamp)
    place = "" if known else f" The robot walks on the spot, because {NO_ODOM}."
    poses = f"The playback has {rate(signals):.0f} poses a second."
    return f"{zoom}; a click takes the robot to that time. {points} {poses}{place}"


def _gait(signals: Signals) -> Iterator[str]:
    """Yield the diagram of modes and contacts, and a table of each leg's figures while it walks."""
    modes = signals.mode_spans()
    bars = [Bars(name.replace("_", " "), spans, MODE_COLOURS.get(name, 0)) for name, spans in modes.items()]
    rows = ["mode"] if modes else []
    known = signals.has_legs and signals.contact_known.any()
    time, walking = signals.joint_time[signals.order], signals.walking[signals.order] & signals.contact_known
    dt = signals.walking_time * signals.contact_known
    seconds, cells = float(dt.sum()), []
    for leg, name in enumerate(LEGS if known else ()):
        contact = signals.contact[:, leg]
        landed = contact & ~np.append(True, contact[:-1]) & walking
        bars.append(Bars("in contact", spans_of(time, contact), 1, len(rows)))
        rows.append(name)
        if seconds >= LEAST:
            duty, touchdowns = float((dt * contact).sum() / seconds), float(landed.sum() / seconds)
            cells.append([name, number(duty, ".1f", " %", 100.0), number(touchdowns, ".2f")])
    lacking = f"The gait is not known: {NO_IMU if signals.has_torque else NO_TORQUE}, by which contacts are estimated."
    yield text(ESTIMATED if known else lacking if signals.has_legs else NO_LEGS)
    ends, height = signals.grid.values[[0, -1]], 60 + 24 * len(rows)
    plot = Plot("Modes and contacts", TIME, "", ends, bars=bars, rows=rows, group=GROUP, height=height)
    yield signals.plots.element(plot)
    if cells:
        yield table(["leg", "duty", "touchdowns per second"], cells)
    elif known:
        yield text(f"The robot walks for less than {LEAST:g} s: the gait has no figures.")


def _path(signals: Signals) -> Iterator[str]:
    odometry = signals.run.odometry.known("position")
    if not len(odometry.stamp):
        yield text(f"The path is not known: {NO_ODOM}.")
        return
    time, position = signals.at(odometry.stamp), odometry.position
    places = np.linspace(0.0, signals.seconds, 4000)
    x, y = (np.interp(places, time, position[:, axis], left=np.nan, right=np.nan) for axis in (0, 1))
    way = float(np.hypot(*np.diff(position[:, :2], axis=0).T).sum())
    away = float(np.hypot(*(position[-1, :2] - position[0, :2])))
    yield text(f"Seen from above. It begins at the green spot; {way:.1f} m of way end {away:.1f} m from there.")
    path = [Line("trunk", y, MEASURED)]
    yield signals.plots.element(Plot("Path, y over x", "x [m]", "m", x, path, scale="path", group=GROUP, height=340))


def _velocity(signals: Signals) -> Iterator[str]:
    stamp, commanded, measured = metrics.velocities(signals.run)
    tracking = metrics.command_tracking(commanded, measured)
    if tracking is None:
        yield text(f"How well commands were followed is not known: {NO_ODOM}.")
    else:
        rows = [
            [f"{name} [{unit}]", number(error["rmse"], ".3f"), number(error["mean"], "+.3f")]
            for error, (name, unit) in zip(tracking.values(), VELOCITIES.items(), strict=True)
        ]
        yield table(["tracking error", "RMS", "mean"], rows)
    time = signals.at(stamp)
    for column, (name, unit) in enumerate(VELOCITIES.items()):
        lines = [signals.line("commanded", time, commanded[:, column], COMMANDED, SPEED)]
        if measured is not None:
            lines.insert(0, signals.line("measured", time, measured[:, column], MEASURED, SPEED))
        yield signals.plot(name.capitalize(), unit, lines)


def _body(signals: Signals) -> Iterator[str]:
    run, robot = signals.run, signals.robot
    imu_time, attitude = signals.at(run.imu.stamp), roll_pitch_yaw(run.imu.orientation)
    leaning = np.degrees(tilt(run.imu.orientation))
    if len(run.steps.target_stamp):
        commanded_time, commanded = signals.at(run.steps.target_stamp), run.steps.setpoint[:, 3:6]
    else:
        walking = signals.walking
        commanded_time = signals.joint_time[walking]
        commanded = run.setpoints.at(run.joints.received[walking])[:, 3:6]
    rows, pairs = [["tilt [°]", *numbers(metrics.quantiles(leaning), QUANTILES, ".1f")]], []
    if signals.has_legs:
        rows.append(["height [m]", *numbers(metrics.quantiles(signals.height), QUANTILES, ".3f")])
        height = robot.nominal_height + commanded[:, 0]
        pairs.append(("Height", "m", METRE, signals.joint_time, signals.height, height))
    if not np.isfinite(leaning).any():
        yield text("Tilt, roll and pitch are not known: the run has no orientation.")
    yield table(["", *QUANTILES.values()], rows)
    for column, name in enumerate(("Roll", "Pitch")):
        measured, wanted = np.degrees(attitude[:, column]), np.degrees(commanded[:, 1 + column])
        pairs.append((name, "°", DEGREE, imu_time, measured, wanted))
    for name, unit, step, time, measured, wanted in pairs:
        lines = [
            signals.line("measured", time, measured, MEASURED, step),
            signals.line("commanded", commanded_time, wanted, COMMANDED, step),
        ]
        yield signals.plot(name, unit, lines)
    lines = [signals.line("tilt", imu_time, leaning, MEASURED, DEGREE)]
    limit = (LIMIT, float(np.degrees(robot.safety.max_tilt)))
    yield signals.plot("Tilt", "°", lines, limits=[limit], zero=True)


def _joints(signals: Signals) -> Iterator[str]:
    run, robot = signals.run, signals.robot
    error, torque = metrics.tracking_error(run), np.abs(run.joints.effort)
    heads = ["joint", "tracking error, RMS [rad]"]
    rows = [
        [joint_title(name), number(metrics.root_mean_square(error[:, joint]), ".3f")]
        for joint, name in enumerate(run.joint_names)
    ]
    if signals.has_torque:
        heads += ["torque, RMS [Nm]", "99 %", "largest", "limit", "time at limit"]
        for cells, values, limit in zip(rows, torque.T, robot.torque_limit.tolist(), strict=True):
            cells += [
                number(metrics.root_mean_square(values), ".1f"),
                *numbers(metrics.quantiles(values), ("p99", "max"), ".1f"),
            ]
            at_limit = float((values[np.isfinite(values)] >= metrics.FULL * limit).mean())
            cells += [number(limit, ".1f"), number(at_limit, ".1f", " %", 100.0)]
    else:
        yield text(f"Torque is not known: {NO_TORQUE}.")
    yield table(heads, rows)
    share = number(metrics.body_motion(run, robot)["share_of_targets_at_position_limit"], ".1f", " %", 100.0)
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

    yield from signals.of_joints(180, lines, unit_right="Nm")


def _power(signals: Signals) -> Iterator[str]:
    joints = signals.run.joints
    power = np.abs(joints.effort * joints.velocity).sum(axis=1)  # [W]
    if not signals.has_torque:
        yield text(f"Power is not known: {NO_TORQUE}.")
        return
    mean = float(power[np.isfinite(power)].mean()) if np.isfinite(power).any() else None
    cells = ["power [W]", number(mean, ".0f"), *numbers(metrics.quantiles(power), QUANTILES, ".0f")]
    yield table(["", "mean", *QUANTILES.values()], [cells])
    lines = [signals.line("power", signals.joint_time, power, MEASURED, WATT)]
    most = signals.robot.safety.max_power
    limits = [(LIMIT, most)] if np.isfinite(most) else []
    yield signals.plot("Power", "W", lines, height=190, limits=limits, zero=True)
