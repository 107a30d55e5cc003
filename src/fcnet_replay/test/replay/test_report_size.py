"""A page of ten minutes can be mailed: less than 5 MB, with every peak of the walk in its plots."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from fcnet_core.document import Page
from fcnet_core.document.plots import Plots
from fcnet_core.robot import load_robot
from fcnet_replay.bags.bag import open_bag
from fcnet_replay.read_run import read_run
from fcnet_replay.report.frame import add_sections
from fcnet_replay.report.motion import motion_sections
from fcnet_replay.report.playback import add_scripts
from fcnet_replay.report.signals import Signals

WALK = Path(__file__).parents[4] / "docs" / "examples" / "aliengo_walk"
MOST = 5_000_000  # [bytes]
TIMES = ("received", "stamp", "target_stamp", "previous_stamp", "joints_stamp", "imu_stamp")
NOISE = {"position": 0.002, "velocity": 0.1, "effort": 0.2, "orientation": 0.003}  # [rad, rad/s, Nm]; of an encoder


def repeated(record, walked, length, count, rng):
    """The rows of a record while the robot walks, `count` times one after the other, with noise of their own."""
    changed = {}
    for field in fields(record):
        values = getattr(record, field.name)
        rows = np.concatenate([values[walked]] * count)
        if field.name in TIMES:
            rows = rows + np.repeat(length * np.arange(count), int(walked.sum()))
        elif field.name in NOISE:
            rows = rows + NOISE[field.name] * rng.standard_normal(rows.shape)
        changed[field.name] = rows
    return replace(record, **changed)


@pytest.fixture(scope="module")
def ten_minutes():
    """The walk of the example again and again."""
    run, rng, length = read_run(open_bag(WALK)), np.random.default_rng(0), 5.5
    first, count = run.joints.stamp[-1] - length, round(600 / length)
    parts = {}
    for name in ("joints", "imu", "targets", "odometry", "steps"):
        record = getattr(run, name)
        stamp = record.target_stamp if name == "steps" else record.stamp
        parts[name] = repeated(record, (stamp >= first) & (stamp < first + length), length, count, rng)
    return Signals(replace(run, mode=type(run.mode)(np.empty(0), ()), **parts), load_robot("aliengo"))


def test_a_page_of_ten_minutes_stays_below_5_megabytes(ten_minutes):
    page, plots = Page("Ten minutes"), Plots()
    sections = motion_sections(ten_minutes, plots, "time")
    add_sections(page, sections)
    add_scripts(page, plots)
    assert ten_minutes.seconds > 590
    assert "every 80 ms; no peak is lost" in sections[0][1][0]
    assert 1_000_000 < len(page.html().encode()) < MOST


def test_no_peak_is_lost_in_ten_minutes(ten_minutes):
    effort = ten_minutes.run.joints.effort
    effort[70_001, 4] = 99.0  # of one state
    shown = ten_minutes.over_time(ten_minutes.joint_time, effort)
    assert shown[:, 4].max() == 99.0
    assert np.allclose(np.nanmin(shown, axis=0), effort.min(axis=0))
    place = ten_minutes.grid.values[int(np.nanargmax(shown[:, 4]))]
    assert abs(place - ten_minutes.joint_time[70_001]) <= 2 * ten_minutes.grid.step
