"""From a bag's path to its evaluation: which robot and which policies, where the user does not say."""

from __future__ import annotations

import string
from collections.abc import Sequence
from pathlib import Path

from fcnet_core.bags.bag import open_bag
from fcnet_core.model_file import ModelFileError, PolicyModel, check_robot, load_model
from fcnet_core.replay.evaluation import Evaluation, evaluate
from fcnet_core.replay.policy_replay import replay_policy
from fcnet_core.replay.read_run import read_run
from fcnet_core.replay.recording_notes import RecordingNotes, read_notes
from fcnet_core.replay.topic_map import OWN, load_topic_map
from fcnet_core.robot import load_robot

SHIPPED = Path(__file__).parents[1] / "models"


class ReplayError(ValueError):
    """A bag cannot be judged; the sentence says what to add."""


def judge_bag(
    path: Path,
    policies: Sequence[Path] = (),
    robot_name: str | None = None,
    namespace: str | None = None,
    topics: Path | None = None,
) -> Evaluation:
    """Read the bag, replay the policies (default: the recorded one, else the robot's shipped one), and judge both.

    Raises BagError, ModelFileError, RobotFileError, TopicMapError or ReplayError with one sentence.
    """
    if len(policies) > len(string.ascii_uppercase):
        raise ReplayError(f"{len(policies)} policies are too many for one report; compare at most 26")
    sources = load_topic_map(topics) if topics else OWN
    bag = open_bag(path)
    notes = read_notes(bag.custom)
    models = [(str(file), load_model(file)) for file in policies]
    robot = load_robot(robot_name or notes.robot or _robot_of(models, path))
    models = models or _default_policy(notes, robot.name)
    for _, model in models:
        check_robot(model, robot)
    run = read_run(bag, notes.namespace if namespace is None else namespace, sources)
    replays = [
        replay_policy(run, label, name, model, robot, notes.control_rate)
        for label, (name, model) in zip(string.ascii_uppercase, models, strict=False)
    ]
    return evaluate(str(path), run, robot, notes, replays)


def _robot_of(models: Sequence[tuple[str, PolicyModel]], path: Path) -> str:
    if not models:
        raise ReplayError(f"the bag {path} does not say which robot it is of; add --robot, for example --robot aliengo")
    return models[0][1].card.robot


def _default_policy(notes: RecordingNotes, robot: str) -> list[tuple[str, PolicyModel]]:
    """The recorded policy where its file still is the one; else the one that the suite ships for this robot, if any."""
    shipped = SHIPPED / f"{robot}.safetensors"
    for file in (Path(notes.model), shipped) if notes.model else (shipped,):
        try:
            model = load_model(file)
        except ModelFileError:
            continue
        if file == shipped or not notes.model_fingerprint or model.fingerprint == notes.model_fingerprint:
            return [(str(file if file != shipped else f"models/{file.name}"), model)]
    return []
