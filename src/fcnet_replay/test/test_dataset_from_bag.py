"""Bags become data of what the policy saw and sent, cut where that is not one motion."""

import shutil

import numpy as np
import pytest
from made_bag import stood_before, text, without

from fcnet_core.cli import USAGE_ERROR, main
from fcnet_core.learning.dataset import Dataset, DatasetWriter, velocity_manifest
from fcnet_core.policy import load_policy
from fcnet_replay.datasets.validation import faults

AS_ALIENGO = {"fcnet.robot": "aliengo"}


def fault_at(time):
    return lambda messages: [*messages, (time, "controller/mode", text("fault"))]


@pytest.fixture(scope="session")
def bag(write_bag):
    return lambda *name, **settings: write_bag(*name, **{"custom": AS_ALIENGO, "rate": 100.0, **settings})


def converted(tmp_path, *arguments):
    assert main(["dataset", "from-bag", *map(str, arguments), "-o", str(tmp_path / "data")]) == 0
    assert not list(faults(tmp_path / "data"))
    return Dataset(tmp_path / "data")


def episodes(data):
    """Lengths of all episodes."""
    (starts,) = np.nonzero(np.concatenate([shard.first.ravel() for shard in data.shards]))
    return np.diff([*starts, data.steps]).tolist()


def test_a_walk_becomes_what_the_policy_saw_and_the_targets_that_were_sent(bag, model, robot, tmp_path) -> None:
    data = converted(tmp_path, bag())
    (shard,) = data.shards
    assert shard.action.shape == (1, 199, 12) and episodes(data) == [199]
    policy = load_policy(model)
    again = np.stack([policy.step(row) for row in np.array(shard.observation[0])])
    limited = np.clip(again, robot.lower, robot.upper)
    near = np.abs(np.diff(shard.action[0], axis=0)).max(axis=1) < 0.5  # elsewhere the slew limit changed the target
    np.testing.assert_allclose(shard.action[0, 1:][near], limited[1:][near], atol=1e-5)
    np.testing.assert_array_equal(shard.observation[0, 1:, 42:54], shard.action[0, :-1])
    (described,) = data.manifest.description["bags"]
    assert described["bag"] == shard.job["bag"] == "walk" and len(described["fingerprint"]) == 64
    assert described["end"] - described["begin"] == pytest.approx(4.0, abs=0.1)
    assert (described["steps"], described["episodes"], described["alignment"]) == (199, 1, "recorded")
    assert shard.job["episodes"][0].keys() == {"steps", "begin", "end"}


def not_a_number(messages):
    for time, topic, message in messages:
        if topic == "joint_states" and 1.0 <= time < 1.2:
            message.velocity[3] = np.nan
    return messages


@pytest.mark.parametrize(
    ("edit", "steps", "left_out"),
    [
        (without(1.0, 1.3, "joint_states"), (180, 188), (12, 20)),
        (without(2.0, 2.02, "controller/policy_step"), (198, 198), (0, 0)),
        (not_a_number, (187, 194), (5, 12)),
    ],
    ids=["no states", "a missing step", "NaN"],
)
def test_episodes_end_at_missing_and_impossible_steps(bag, tmp_path, edit, steps, left_out) -> None:
    data = converted(tmp_path, bag(edit=edit))
    assert len(episodes(data)) == 2 and steps[0] <= data.steps <= steps[1]
    counted = sum(data.manifest.description["bags"][0]["left_out"].values())
    assert left_out[0] <= counted <= left_out[1] and data.steps + counted in (198, 199)


def test_what_led_to_a_fault_is_no_example(bag, tmp_path) -> None:
    data = converted(tmp_path, bag(edit=fault_at(4.0)))
    assert data.steps == 149
    assert data.manifest.description["bags"][0]["left_out"] == {"a fault followed within 1 s": 50}


def test_commands_that_were_not_recorded_are_reported(bag, tmp_path, capsys) -> None:
    path = bag(edit=stood_before, without=("controller/policy_step", "cmd_vel"))
    converted(tmp_path, path)
    assert "the bag has no commands" in capsys.readouterr().out


def test_a_walk_whose_beginning_is_missing_has_no_known_phase(bag, tmp_path, capsys) -> None:
    path = bag(without=("controller/policy_step",))  # its mode is `walking` from the start
    assert main(["dataset", "from-bag", str(path), "-o", str(tmp_path / "data")]) == USAGE_ERROR
    printed = capsys.readouterr()
    assert "lacks the beginning of that walk, or targets in it, so the gait's phase is unknown" in printed.out
    assert "hold no walking to learn from" in printed.err and not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("settings", "arguments", "words"),
    [
        ({}, ["--robot", "a1"], "is of the robot aliengo, not a1"),
        ({"error": 2.0}, [], "lie beyond the joint limits of aliengo"),
        ({"custom": {}}, [], "does not name its robot"),
        ({}, ["--rate", "100"], "took 50 steps a second, not 100"),
        ({}, ["AGAIN"], "same recording"),
    ],
)
def test_a_bag_of_another_robot_or_rate_or_named_twice_is_refused(bag, tmp_path, capsys, settings, arguments, words):
    path = str(bag(**settings))
    arguments = [path if argument == "AGAIN" else argument for argument in arguments]
    assert main(["dataset", "from-bag", path, *arguments, "-o", str(tmp_path / "data")]) == USAGE_ERROR
    assert words in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_several_bags_go_together_with_collected_data(bag, robot, tmp_path) -> None:
    data, first = converted(tmp_path, bag("one"), bag("two", roll=0.2)), np.arange(60)[None] == 0
    writer = DatasetWriter(tmp_path / "collected", velocity_manifest(robot, 50.0))
    writer.add({}, observation=np.zeros((1, 60, 70)), action=np.zeros((1, 60, 12)), first=first)
    assert Dataset([tmp_path / "data", tmp_path / "collected"]).steps == 398 + 60  # as `fcnet train` takes them
    assert [entry["bag"] for entry in data.manifest.description["bags"]] == ["one", "two"]


def test_a_damaged_bag_gives_what_it_holds_and_the_damage_is_reported(bag, tmp_path) -> None:
    path = shutil.copytree(bag(rate=250.0), tmp_path / "bag")  # two chunks
    (file,) = path.glob("*.mcap")
    file.write_bytes(file.read_bytes()[: file.stat().st_size * 3 // 4])
    data = converted(tmp_path, path)
    assert 0 < data.steps < 199
    assert data.manifest.description["bags"][0]["problems"]
