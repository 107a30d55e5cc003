"""Collected experience: what a plan asks for, deterministic, with labels that are the expert's."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from damage import read_damaged

from fcnet_core.control.command import CommandShaper
from fcnet_core.control.envelope import Envelope
from fcnet_core.errors import FcnetError
from fcnet_core.learning.dataset import Dataset
from fcnet_core.model_file import save_model
from fcnet_core.observation import LAYOUT
from fcnet_core.robot import SETPOINT_FIELDS, load_robot
from quadruped_sim.collection import Collector, jobs, load_plan
from quadruped_sim.rollout import Rollout
from quadruped_sim.tasks.setpoints import SetpointSource

CONFIG = Path(__file__).parents[4] / "config" / "collect"
PLAN = {
    "robot": "aliengo",
    "shards": 4,
    "robots": 3,
    "seconds": 1,
    "parts": {
        "walk": {
            "share": 3,
            "terrains": [{"kind": "flat"}, {"kind": "slope", "degrees": 5}],
            "setpoints": {"always": {"vx": [0.3, 0.8]}, "sometimes": {"height": [-0.05, 0]}, "hold": 0.4},
            "randomization": {"friction": 0.6},
            "push": 0.3,
        },
        "rough": {
            "share": 1,
            "terrains": [{"kind": "rough", "amplitude": 0.03}],
            "setpoints": {"always": {"vx": [-0.3, 0.5]}, "standing_share": 0.5},
        },
    },
}


@pytest.fixture
def plan(tmp_path):
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(PLAN))
    return load_plan(tmp_path / "plan.yaml")


def _collect(collector: Collector) -> Dataset:
    """Make the first shard."""
    collector.collect(next(jobs(collector.plan, collector.seed)))
    return Dataset(collector.folder)


@pytest.mark.parametrize("path", sorted(CONFIG.glob("*.yaml")), ids=lambda path: path.stem)
def test_plans_that_ship_can_be_used_and_reach_as_far_as_a_driver_shall_get(path):
    plan = load_plan(path)
    work = list(jobs(plan, 0))
    assert len({job.seed for job in work}) == len(work) == plan.shards
    assert {job.name for job in work} == set(plan.parts)
    robot, driven = load_robot(plan.robot), []
    for job in work:
        shaper = CommandShaper(robot.commands, robot.gait, 0.02, plan.robots)
        source = SetpointSource(job.part.setpoints, plan.robots, 0.02, np.random.default_rng(job.seed))
        for _ in range(round(50 * plan.seconds)):
            shaper.step(source.step())
            driven.append(shaper.setpoint)
    envelope = Envelope.from_setpoints([np.concatenate(driven)], 50.0, robot.commands)
    assert envelope is not None
    low = robot.commands["height"].lowest
    for wanted in (
        {"vx": -0.75, "vy": 0.35, "yaw_rate": -1.0},
        {"vy": -0.35, "yaw_rate": 1.1},
        {"vx": 0.9, "vy": 0.35, "yaw_rate": 1.1, "height": 0.3 * low, "pitch": -0.06},
        {"vx": 1.95, "vy": 0.12, "yaw_rate": -0.4, "height": 0.3 * low, "roll": 0.06},
        {"vx": 0.5, "vy": 0.3, "yaw_rate": 0.9, "height": 0.8 * low, "roll": 0.2, "pitch": -0.15, "clearance": 0.05},
        {"vx": 0.4, "width": -0.15, "frequency": 0.15},
    ):
        setpoint = np.array([[wanted.get(field, 0.0) for field in SETPOINT_FIELDS]])
        np.testing.assert_allclose(envelope.shorten(setpoint), setpoint, atol=1e-9)


def test_shards_follow_the_shares_of_the_plan_and_terrains_alternate(plan):
    work = list(jobs(plan, 0))
    assert Counter(job.name for job in work) == {"walk": 3, "rough": 1}
    assert [job.terrain["kind"] for job in work if job.name == "walk"] == ["flat", "slope", "flat"]
    assert len({job.seed for job in work} | {job.seed for job in jobs(plan, 1)}) == 8


def test_a_job_whose_worker_died_after_its_shard_was_whole_is_done(plan, tmp_path):
    collector, job = Collector(plan, tmp_path / "data", 0), next(jobs(plan, 0))
    made = collector.collect(job)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "data").rglob("*")}
    assert collector.collect(job) | {"seconds": 0.0} == made | {"seconds": 0.0}
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "data").rglob("*")} == before


def test_a_shard_holds_what_was_seen_and_what_the_expert_advised(plan, aliengo, tmp_path):
    data = _collect(Collector(plan, tmp_path / "data", 0))
    shard = data.shards[0]
    assert shard.observation.shape == (3, 50, 70) and data.steps == 150
    assert shard.first[:, 0].all() and not shard.first[:, 1:].any()
    assert (shard.action >= aliengo.lower - 1e-6).all() and (shard.action <= aliengo.upper + 1e-6).all()
    sent = shard.observation[:, 1:, LAYOUT["last_action"]]  # disturbed on purpose
    difference = np.abs(sent - shard.action[:, :-1])
    assert 0.001 < difference.mean() < 0.1
    sine, cosine = (shard.observation[..., LAYOUT[f"{name}_joint_position"]] for name in ("sin", "cos"))
    np.testing.assert_allclose(sine**2 + cosine**2, 1, atol=1e-6)  # no noise is recorded: training adds its own
    assert data.manifest.robot == "aliengo" and data.manifest.control_rate == 50


def test_advice_beyond_the_joint_limits_is_recorded_as_it_is_sent(plan, aliengo, tmp_path, monkeypatch):
    monkeypatch.setattr(Rollout, "advise", lambda rollout, seen: np.full((plan.robots, 12), 9.0))
    action = _collect(Collector(plan, tmp_path / "data", 1)).shards[0].action
    assert np.all(action == aliengo.upper.astype(np.float32))


def test_a_student_drives_while_the_expert_labels(plan, aliengo, standing_policy, tmp_path):
    save_model(standing_policy, tmp_path / "student.safetensors")
    collector = Collector(plan, tmp_path / "data", 0, tmp_path / "student.safetensors", student_share=1.0)
    shard = _collect(collector).shards[0]
    sent = shard.observation[:, 1:, LAYOUT["last_action"]]
    assert np.abs(sent - aliengo.stand_pose).max() < 0.1
    assert np.abs(shard.action - aliengo.stand_pose).max() > 0.2


def test_a_folder_is_not_continued_with_another_seed_or_plan(plan, tmp_path):
    Collector(plan, tmp_path / "data", 0).writer()
    with pytest.raises(FcnetError, match="another seed"):
        Collector(plan, tmp_path / "data", 1).writer()


def _walk(**changes: Any) -> dict[str, Any]:
    part = {"share": 1, "terrains": [{"kind": "flat"}], "setpoints": {}} | changes
    return {"parts": {"walk": {key: value for key, value in part.items() if value is not None}}}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (_walk(terrains=[{"kind": "lava"}]), "lava"),
        (_walk(terrains=None), "terrains"),
        (_walk(setpoints={"always": {"speed": 1}}), "speed"),
        ({"shards": 10**12}, "shards is 1000000000000"),
        ({"seconds": 1e308}, r"seconds is 1e\+308"),
        ({"robots": 10_000, "seconds": 1e6}, "steps in a shard"),
        (_walk(setpoints={"always": {"vx": [1, 0]}}), "range"),
    ],
)
def test_an_invalid_plan_is_refused_with_its_name_and_the_setting(change, named, tmp_path):
    facts = {key: value for key, value in {**PLAN, **change}.items() if value is not None}
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(facts))
    with pytest.raises(FcnetError, match=named) as error:
        load_plan(tmp_path / "plan.yaml")
    assert "plan.yaml" in str(error.value)


@pytest.mark.parametrize("path", sorted(CONFIG.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_damaged_plan_is_used_or_refused_in_a_sentence(path):
    counts = read_damaged(path, load_plan, files=50)
    assert counts.keys() <= {"used", "refused"}
