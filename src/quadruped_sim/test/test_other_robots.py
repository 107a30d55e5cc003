"""Robots with other joints than a quadruped's 12 are evaluated, driven, drawn and learnt with; what needs legs, a lying
pose or a way to get up is refused in a sentence that names it.
"""

import json
from dataclasses import replace as with_fields

import gymnasium
import numpy as np
import pytest
from made_robots import TAILED, small_model

import quadruped_sim.environments  # noqa: F401, registers them
from fcnet_core.cli import main
from fcnet_core.errors import FcnetError
from fcnet_core.learning.dataset import Dataset
from fcnet_core.model_file import PolicyModel
from quadruped_sim.collection import CollectionPlan, Collector, Part, jobs
from quadruped_sim.evaluation.getting_up import get_up
from quadruped_sim.evaluation.scenarios import scenarios
from quadruped_sim.evaluation.score import score_of
from quadruped_sim.evaluation.trial import Trial
from quadruped_sim.physics.terrain import Flat, Stairs
from quadruped_sim.render.renderer import display_model
from quadruped_sim.render.trajectory import parse_phase, trajectory_of_policy
from quadruped_sim.tasks.setpoints import SetpointRanges


@pytest.fixture(autouse=True)
def _found_by_name(monkeypatch):
    monkeypatch.setenv("FCNET_ROBOTS", str(TAILED.parent))


@pytest.fixture
def standing(request, biped, tailed) -> tuple[object, PolicyModel]:
    """A robot, and a policy whose output is its stand pose."""
    robot = {"biped": biped, "tailed": tailed}[request.param]
    return robot, small_model(robot, spread=0.0)


BOTH = pytest.mark.parametrize("standing", ["biped", "tailed"], indirect=True)


@BOTH
def test_a_policy_is_evaluated(standing):
    robot, model = standing
    scenario = with_fields(scenarios(robot)["stand"], seconds=3.0)
    score = score_of(scenario, Trial(robot.name, scenario, 0, 0, 4, model).run())
    if robot.name == "tailed":  # two legs that only hold their pose do not balance
        assert (score.lying_episodes, score.falls) == (2, score.lying_falls) and score.velocity[0] < 0.05
    assert score.gait.joint_torque_saturation < 0.2


@pytest.mark.parametrize("robot", ["tailed", str(TAILED)], ids=["name", "path"])
def test_the_program_evaluates_a_robot_whose_file_is_elsewhere(robot, capsys, monkeypatch):
    if robot == str(TAILED):
        monkeypatch.delenv("FCNET_ROBOTS")
    arguments = ["--expert", "--robot", robot, "--scenarios", "stand", "--episodes", "2", "--processes", "2"]
    assert main(["evaluate", *arguments, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["subject"]["robot"] == "tailed"


@BOTH
def test_a_policy_is_driven_and_drawn(standing):
    robot, model = standing
    shown = trajectory_of_policy(robot, model, Flat(), [parse_phase("0.4:vx=0.2")])
    assert len(shown) == 20 and shown.joints.shape == (20, len(robot.joints))
    drawn = display_model(robot, Stairs(0.05), 64, 48)
    assert drawn.nq == 7 + len(robot.joints) and (drawn.geom_bodyid > 0).any()


@BOTH
def test_it_is_an_environment(standing):
    robot, _ = standing
    envs = gymnasium.make_vec("fcnet/Aliengo-v0", num_envs=2, rate=100.0, robot=robot.name)
    seen, _ = envs.reset(seed=0)
    assert seen.shape == (2, 4 * len(robot.joints) + 22) and envs.single_action_space.shape == (len(robot.joints),)
    for _ in range(20):
        seen, earned, fell, *_ = envs.step(np.tile(robot.stand_pose, (2, 1)).astype(np.float32))
    assert np.isfinite(seen).all() and (earned > 0.0).all() and not fell.any()


def test_a_robot_with_a_tail_trots(tailed, tmp_path):
    part = Part(1.0, ({"kind": "flat"},), SetpointRanges({"vx": (0.4, 0.4)}), action_noise=0.0)
    plan = CollectionPlan("tailed", 1, 2, 3.0, {"walk": part}, rate=100.0)
    assert Collector(plan, tmp_path / "data", 0).collect(next(jobs(plan, 0)))["falls"] == 0
    data = Dataset(tmp_path / "data")
    assert data.manifest.joint_names == tailed.joint_names and data.manifest.control_rate == 100.0
    assert data.shards[0].action.shape == (2, 300, 13)


def test_what_a_robot_lacks_is_named(biped, tmp_path):
    plan = CollectionPlan("biped", 1, 2, 1.0, {"walk": Part(1.0, ({"kind": "flat"},), SetpointRanges())})
    collector = Collector(plan, tmp_path / "data", 0)
    for attempt, named in (
        (lambda: get_up(biped, "stand_up", 0, 0), "biped has no lying pose"),
        (lambda: get_up(biped, "recovery", 0, 0), "biped .* no recovery"),
        (lambda: Trial("biped", scenarios(biped)["flat"], 0, 0, 1).run(), "no legs"),
        (lambda: collector.collect(next(jobs(plan, 0))), "no legs"),
    ):
        with pytest.raises(FcnetError, match=named):
            attempt()
