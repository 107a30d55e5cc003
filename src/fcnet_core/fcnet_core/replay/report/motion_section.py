"""What the robot did: commands, tilt, torque, limits."""

from __future__ import annotations

import numpy as np

from fcnet_core.replay.body_motion import tilt
from fcnet_core.replay.command_tracking import AXES
from fcnet_core.replay.evaluation import Evaluation
from fcnet_core.replay.report.chart import Chart, Series
from fcnet_core.replay.report.recording_section import start
from fcnet_core.replay.report.table import number, table
from fcnet_core.robot import JOINT_NAMES

NAMES = {
    "forward_m_s": ("Forward velocity", "[m/s]"),
    "sideways_m_s": ("Sideways velocity", "[m/s]"),
    "yaw_rate_rad_s": ("Yaw rate", "[rad/s]"),
}
TRACKING = """Measured is the mean over half a second, about one stride, within which a body always sways. A constant
difference is a bias that a better policy would not have."""
BODY = """Tilt is the angle of the trunk to gravity. Torque counts as a share of each joint's limit: short peaks at
foot fall are usual, a joint that stays at its limit is too weak for the task or blocked. Tracking error is measured
less commanded position; soft joints need some to push with."""


def motion_section(evaluation: Evaluation) -> str:
    """The section's HTML."""
    return f"<h2>Commands</h2>{_commands(evaluation)}<h2>Body and joints</h2><p>{BODY}</p>{_body(evaluation)}"


def _commands(evaluation: Evaluation) -> str:
    velocity, first = evaluation.velocity, start(evaluation)
    charts = []
    for index, axis in enumerate(AXES):
        series = [Series("commanded", velocity.time - first, velocity.commanded[:, index], 1)]
        if velocity.measured is not None:
            series.insert(0, Series("measured", velocity.time - first, velocity.measured[:, index], 0))
        title, unit = NAMES[axis]
        charts.append(f"<figure>{Chart(title, 'time [s]', unit, series, height=150).svg()}</figure>")
    tracking = evaluation.figures["tracking"]
    if tracking is None:
        return f"<p>How well commands were followed is not known: the bag has no odom.</p>{''.join(charts)}"
    rows = [
        [f"{NAMES[axis][0]} {NAMES[axis][1]}", number(figures["rmse"], ".3f"), number(figures["mean"], "+.3f")]
        for axis, figures in tracking.items()
    ]
    return f"<p>{TRACKING}</p>{table(['measured less commanded', 'RMS', 'mean'], rows)}{''.join(charts)}"


def _body(evaluation: Evaluation) -> str:
    run, robot, motion = evaluation.run, evaluation.robot, evaluation.figures["motion"]
    first = start(evaluation)
    tilted = Series("tilt", run.imu.stamp - first, np.degrees(tilt(run.imu.orientation)), 1)
    effort = np.abs(run.joints.effort) / robot.torque_limit
    hardest = Series("torque", run.joints.stamp - first, effort.max(axis=1), 1)
    limit = ("limit of the safety layer", float(np.degrees(robot.safety.max_tilt)))
    charts = [Chart("Tilt of the trunk", "time [s]", "[°]", [tilted], limit, zero=True)]
    if np.isfinite(hardest.y).any():
        title = "Torque of the hardest working joint"
        charts.append(Chart(title, "time [s]", "share of limit", [hardest], ("limit", 1.0), zero=True))
    torque = motion["torque_of_limit"]
    rows = [
        [joint, *(number(torque[joint][name], ".0%") for name in ("p50", "p95", "p99", "max"))] for joint in JOINT_NAMES
    ]
    facts = [
        ["a joint at its torque limit, share of time", number(motion["share_of_time_at_torque_limit"], ".1%")],
        [
            "a target at a joint's position limit, share of targets",
            number(motion["share_of_targets_at_position_limit"], ".1%"),
        ],
        ["tracking error of joints, RMS", number(motion["joint_tracking_error_rad"], ".3f", " rad")],
        ["tilt, 99 % of the time below", number(motion["tilt_rad"]["p99"], ".1f", "°", float(np.degrees(1.0)))],
    ]
    drawn = "".join(f"<figure>{chart.svg()}</figure>" for chart in charts)
    return (
        f"{drawn}{table(['figure', 'value'], facts)}<h3>Torque as a share of the limit</h3>"
        f"{table(['joint', 'median', '95 %', '99 %', 'largest'], rows)}"
    )
