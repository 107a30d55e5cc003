"""Robots of other joints than a quadruped of 12, and policies of other rates than 50 Hz: bags, reports, data sets."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_bag import MadeBag, stood_before
from msgspec import structs
from page_reader import PageReader

from fcnet_core.errors import ReplayError
from fcnet_core.learning.dataset import Dataset
from fcnet_core.model_file import save_model
from fcnet_core.robot import load_robot
from fcnet_replay.bags.bag import open_bag
from fcnet_replay.datasets.from_bag import BagReading, dataset_from_bags
from fcnet_replay.evaluation import evaluate_bag
from fcnet_replay.read_run import read_run
from fcnet_replay.report.page import page
from fcnet_replay.run import NO_STEPS
from fcnet_replay.steps import extract_steps

ROBOTS = Path(__file__).parents[3] / "fcnet_core" / "test" / "shared" / "robots"
ERROR = 0.01  # [rad]


@pytest.fixture(params=["biped", "tailed"])
def other(request):
    """A robot of 8 joints without legs of a quadruped, and one of 13 with them."""
    return load_robot(ROBOTS / f"{request.param}.yaml")


@pytest.fixture
def bag(other, tmp_path):
    """Its bag: targets name the joints in the reverse order."""
    return MadeBag(None, other, seconds=2.0, rate=100.0, error=ERROR, edit=stood_before).write(tmp_path / "walk")


@pytest.mark.parametrize("known", [True, False])
def test_a_run_has_the_joints_of_the_robot_or_else_those_of_its_joint_states(other, bag, known) -> None:
    run = read_run(open_bag(bag), joint_names=other.joint_names if known else ())
    assert run.joint_names == other.joint_names
    assert run.joints.position.shape == (200, len(other.joints))
    np.testing.assert_allclose(run.targets.position, np.tile(other.stand_pose + ERROR, (99, 1)))
    with pytest.raises(ReplayError, match="has the joints"):
        run.check_robot(load_robot("aliengo"))


def test_joints_that_the_messages_lack_are_named(bag) -> None:
    with pytest.raises(ReplayError, match="200 messages of /joint_states left out: they lack a_wheel"):
        read_run(open_bag(bag), joint_names=("a_wheel",))


def test_its_report_has_legs_and_contacts_if_the_robot_has_legs(other, bag) -> None:
    evaluation = evaluate_bag(bag, robot_name=str(ROBOTS / f"{other.name}.yaml"))
    motion = evaluation.figures["motion"]
    assert list(motion["torque_of_limit"]) == list(other.joint_names)
    assert motion["joint_tracking_error_rad"] == pytest.approx(np.hypot(ERROR, 0.1 / np.sqrt(2)), rel=0.02)
    words = PageReader(page(evaluation)).words
    assert {"Gait and contacts", "Height and attitude", "power [W]"} <= set(words)
    assert ("Playback" in words) == ("duty" in words) == ("height [m]" in words) == bool(other.legs)
    assert {name.removesuffix("_joint").replace("_", " ") for name in other.joint_names} <= set(words)


@pytest.mark.parametrize("rate", [30.0, 100.0])
def test_a_policy_of_another_rate_is_replayed_and_its_steps_are_inferred(model, robot, tmp_path, rate) -> None:
    interface = structs.replace(model.card.interface, rate=rate)
    other = replace(model, card=structs.replace(model.card, interface=interface))
    save_model(other, tmp_path / "other.safetensors")
    bag = MadeBag(other, robot, edit=lambda messages: stood_before(messages, 1 / rate)).write(tmp_path / "walk")
    error = evaluate_bag(bag, [tmp_path / "other.safetensors"], "aliengo").figures["policies"]["A"]["action_error_rad"]
    assert error["agrees"] and error["steps"] == 4 * rate - 1
    run = read_run(open_bag(bag), joint_names=robot.joint_names)
    inferred = extract_steps(replace(run, steps=NO_STEPS), other.command_shaper())
    assert len(inferred) == len(run.steps.cold) and inferred.phase_known.all()
    written = dataset_from_bags([bag], tmp_path / "data", BagReading("aliengo", rate=rate), lambda _line: None)
    assert written.steps == len(inferred)


def test_its_walk_becomes_a_data_set_of_its_own_size(other, bag, tmp_path) -> None:
    joints, printed = len(other.joints), []
    reading = BagReading(robot=str(ROBOTS / f"{other.name}.yaml"))
    dataset_from_bags([bag], tmp_path / "data", reading, printed.append)
    data = Dataset(tmp_path / "data")
    assert (data.manifest.robot, data.manifest.joint_names) == (other.name, other.joint_names)
    (shard,) = data.shards
    assert shard.observation.shape == (1, data.steps, 4 * joints + 22)
    assert shard.action.shape == (1, data.steps, joints)
    assert data.steps > 80
