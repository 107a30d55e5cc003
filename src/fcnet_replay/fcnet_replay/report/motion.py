"""The sections of a report that show a walk."""

import json
from collections.abc import Iterator
from html import escape
from typing import Any

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.document import scene, table, text
from fcnet_core.document.plots import Bars, Line, Plot
from fcnet_core.legs.kinematics import LegKinematics
from fcnet_core.names import Mode
from fcnet_core.robot import LEGS
from fcnet_core.rotation import matrix_from_xyzw, roll_pitch_yaw, tilt
from fcnet_replay import metrics
from fcnet_replay.report.findings import number, numbers
from fcnet_replay.report.signals import GROUP, HOLD, TIME, Signals, joint_title, spans_of
from fcnet_replay.run import newest

QUANTILES = {"p50": "median", "p95": "95 %", "p99": "99 %", "max": "largest"}
VELOCITIES = {"forward": "m/s", "sideways": "m/s", "yaw rate": "rad/s"}  # in the trunk's frame
Section = tuple[str, list[str]]  # heading and elements in HTML
Series = tuple[Array, Array]  # times (N,) [s] and values (N,)
JOINTS = "Joints: target, measured and torque"  # a heading
MEASURED, COMMANDED = 0, 1  # colours
# Steps to which lines are rounded, in their units.
SPEED, METRE, RADIAN, DEGREE, TORQUE, WATT = 0.001, 0.0005, 0.0005, 0.02, 0.02, 0.2
LIMIT = "limit of the safety layer"
NO_ODOM = "the run has no odom"
NO_TORQUE = "the run has no torques"
NO_IMU = "the run has no orientation or no angular velocity"
MODE_COLOURS: dict[str, int] = {Mode.STANDING: 4, Mode.WALKING: 3}
MODE_COLOURS |= {Mode.STANDING_UP: 5, Mode.LYING_DOWN: 5, Mode.RECOVERING: 2, Mode.FAULT: 2}
MOST_POSES = 15_000  # of a playback: 25 a second in 10 minutes
FINEST = 0.02  # [s] between two poses, at least
POINT, TURN = 0.0005, 0.0005  # steps [m] of points and of the entries of rotations
LONGEST_INTERVAL = 0.1  # [s] between two states that counts as walking; longer ones are gaps in the recording
LEAST = 1.0  # [s] of walking, below which a gait has no figures
NO_LEGS = "Contacts are not known: the robot's file describes no legs."
ESTIMATED = "Coloured: the foot is in contact, by an estimate from joints, torques and IMU."


def motion_sections(signals: Signals) -> list[Section]:
    """Return the sections on playback, gait, path, velocity, height and attitude, joints, and power."""
    shown = [_playback(signals)] if signals.has_legs else []
    return [
        ("Playback" if shown else "Plots", [text(_about(signals)), *shown]),
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
    return f"{zoom}; a click takes the robot to that time. {points}{place}"


def _playback(signals: Signals) -> str:
    """Return the HTML of the scene with its controls, which also move the time mark of the group's plots.

    Poses: place (P, 3) [m] and turn (P, 9) of the trunk, legs and ghost (P, 4, 3, 3) [m] without hips. Without odom the
    robot walks on the spot, with its height from the legs and its attitude from the IMU.
    """
    robot, legs = signals.robot, LegKinematics(signals.robot)
    period = max(signals.seconds / MOST_POSES, FINEST)
    time = np.arange(0.0, signals.seconds, period)
    row = np.maximum(newest(signals.joint_time, time), 0)
    place = np.column_stack([np.zeros((len(row), 2)), signals.height[row]])
    turn = signals.rotation[row]
    odometry = signals.run.odometry.known("position", "orientation")
    if len(odometry.stamp):
        stamp = signals.at(odometry.stamp)
        known = (found := newest(stamp, time)) >= 0
        fresh = known & (time - stamp[found] <= 5 * HOLD)
        place = np.where(fresh[:, None], odometry.position[found], np.nan)
        turn = np.where(fresh[:, None, None], matrix_from_xyzw(odometry.orientation[found]), turn)
    ghost = legs.points(signals.target[row][:, robot.leg_rows])[:, :, 1:]
    parts = [place, turn, signals.points[row][:, :, 1:], *([ghost] if np.isfinite(ghost).any() else [])]
    columns = np.concatenate([part.reshape(len(time), -1) for part in parts], axis=1)
    steps = [POINT] * 3 + [TURN] * 9 + [POINT] * (columns.shape[1] - 12)
    facts: dict[str, Any] = {
        "scene": scene.scene_facts(robot),
        "group": GROUP,
        "period": period,
        "hips": legs.hips.tolist(),
        "columns": [signals.plots.arrays.add(column, step) for column, step in zip(columns.T, steps, strict=True)],
    }
    name = f"{robot.name}, {signals.seconds:.1f} s"
    return (
        f'<div class="playback" data-playback="{escape(json.dumps(facts))}">'
        f'<div class="view"><canvas role="img" aria-label="the walk of {escape(name)}"></canvas>'
        '<p class="legend"><i class="commanded"></i>joint targets <span>drag to turn, wheel to zoom</span></p>'
        '<div class="cameras" role="group" aria-label="camera"></div></div>'
        f'<div class="bar" role="group" aria-label="playback of {escape(name)}"></div></div>'
    )


def _gait(signals: Signals) -> Iterator[str]:
    """Yield the diagram of modes and contacts, and a table of each leg's figures while it walks."""
    modes = signals.mode_spans()
    bars = [Bars(name.replace("_", " "), spans, MODE_COLOURS.get(name, 0)) for name, spans in modes.items()]
    rows = ["mode"] if modes else []
    known = signals.has_legs and signals.contact_known.any()
    time, walking = signals.joint_time, signals.walking & signals.contact_known
    dt = np.clip(np.diff(time, append=time[-1]), 0.0, LONGEST_INTERVAL) * walking
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
        shown = None if measured is None else (time, measured[:, column])
        yield _compared(signals, name.capitalize(), unit, SPEED, shown, (time, commanded[:, column]))


def _compared(signals: Signals, title: str, unit: str, step: float, measured: Series | None, commanded: Series) -> str:
    """Return the plot of what was measured and commanded, rounded to `step`."""
    lines = [signals.line("measured", *measured, MEASURED, step)] if measured else []
    return signals.plot(title, unit, [*lines, signals.line("commanded", *commanded, COMMANDED, step)])


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
    rows = [["tilt [°]", *numbers(metrics.quantiles(leaning), QUANTILES, ".1f")]]
    if not np.isfinite(leaning).any():
        yield text("Tilt, roll and pitch are not known: the run has no orientation.")
    if signals.has_legs:
        rows.append(["height [m]", *numbers(metrics.quantiles(signals.height), QUANTILES, ".3f")])
    yield table(["", *QUANTILES.values()], rows)
    if signals.has_legs:
        measured, wanted = (signals.joint_time, signals.height), robot.nominal_height + commanded[:, 0]
        yield _compared(signals, "Height", "m", METRE, measured, (commanded_time, wanted))
    for column, name in enumerate(("Roll", "Pitch")):
        measured, wanted = (imu_time, np.degrees(attitude[:, column])), np.degrees(commanded[:, 1 + column])
        yield _compared(signals, name, "°", DEGREE, measured, (commanded_time, wanted))
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
            largest = numbers(metrics.quantiles(values), ("p99", "max"), ".1f")
            at_limit = float((values[np.isfinite(values)] >= metrics.FULL * limit).mean())
            cells += [number(metrics.root_mean_square(values), ".1f"), *largest, number(limit, ".1f")]
            cells.append(number(at_limit, ".1f", " %", 100.0))
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
