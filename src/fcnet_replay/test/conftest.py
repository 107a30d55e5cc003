"""The shipped policy, and bags of a made-up walk (made_bag.py), of which tests know what replay must find."""

from pathlib import Path

import pytest
from made_bag import MadeBag

from fcnet_core.model_file import load_model
from fcnet_core.robot import load_robot
from fcnet_replay.evaluation import evaluate_bag


@pytest.fixture(scope="session")
def robot():
    return load_robot("aliengo")


@pytest.fixture(scope="session")
def model():
    return load_model(Path(__file__).parents[3] / "models" / "aliengo.safetensors")


@pytest.fixture(scope="session")
def write_bag(model, robot, tmp_path_factory):
    """Writes a bag of a MadeBag with these settings and returns its folder; the same settings, the same folder."""
    written = {}

    def write(name="walk", **settings):
        key = name, repr(sorted(settings.items()))
        if key not in written:
            folder = tmp_path_factory.mktemp("bags") / name
            written[key] = MadeBag(model, robot, **settings).write(folder), settings  # a key names functions
        return written[key][0]

    return write


@pytest.fixture
def evaluate(write_bag):
    """Evaluates a bag of a MadeBag with these settings."""

    def evaluate(policies=(), **settings):
        return evaluate_bag(write_bag(**settings), policies, robot_name="aliengo")

    return evaluate
