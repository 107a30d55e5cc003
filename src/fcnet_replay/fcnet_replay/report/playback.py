"""The playback of a run: a robot that walks in the page, drawn by the monitor's scene, and the page's script."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from fcnet_core.document import Page, scene
from fcnet_core.document.plots import Plots
from fcnet_core.legs.kinematics import LegKinematics
from fcnet_core.rotation import matrix_from_xyzw
from fcnet_replay.report.signals import GROUP, HOLD, Signals
from fcnet_replay.run import newest

SCRIPT = Path(__file__).with_name("report.js")
STYLE = Path(__file__).with_name("report.css")
MOST_POSES = 15_000  # of a playback: 25 a second in 10 minutes
FINEST = 0.02  # [s] between two poses, at least
POINT, TURN = 0.0005, 0.0005  # steps [m] of points and of the entries of rotations


def playback(signals: Signals) -> str:
    """Return the HTML of the scene with its controls, which also move the time mark of the group's plots.

    Poses: place (P, 3) [m] and turn (P, 9) of the trunk, legs and ghost (P, 4, 3, 3) [m] without hips. Without odom the
    robot walks on the spot, with its height from the legs and its attitude from the IMU.
    """
    robot, period = signals.robot, 1.0 / rate(signals)
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
    ghost = LegKinematics(robot).points(signals.target[row][:, robot.leg_rows])[:, :, 1:]
    parts = [place, turn, signals.points[row][:, :, 1:], *([ghost] if np.isfinite(ghost).any() else [])]
    columns = np.concatenate([part.reshape(len(time), -1) for part in parts], axis=1)
    steps = [POINT] * 3 + [TURN] * 9 + [POINT] * (columns.shape[1] - 12)
    facts: dict[str, Any] = {
        "scene": scene.scene_facts(robot),
        "group": GROUP,
        "period": period,
        "hips": LegKinematics(robot).hips.tolist(),
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


def add_scripts(page: Page, plots: Plots) -> None:
    """Add the scripts and styles of plots and playback to the page."""
    plots.add_to(page, SCRIPT.read_text(encoding="utf-8"))
    page.style += [scene.STYLE.read_text(encoding="utf-8"), STYLE.read_text(encoding="utf-8")]
    page.modules |= {path.name: path.read_text(encoding="utf-8") for path in scene.SCRIPTS}


def rate(signals: Signals) -> float:
    """Return the number of poses per second."""
    return 1.0 / max(signals.seconds / MOST_POSES, FINEST)
