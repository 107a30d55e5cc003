"""The policies in models/ do what they did when test/data/ was recorded: the same targets, and walks as good.

    python src/quadruped_sim/test/evaluation/test_shipped_policies.py targets    # records targets, of new models too
    python src/quadruped_sim/test/evaluation/test_shipped_policies.py walks      # records falls and mean errors

Targets are recorded before any limiter, for the observations in that file, of one walk of each robot with white noise
and pushes. They must change only with a model. Walks must be recorded again when simulation, noise or the rules for
targets change.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fcnet_core.files import write_whole
from fcnet_core.model_file import load_model, shipped_model
from fcnet_core.policy import load_policy
from fcnet_core.robot import load_robot
from quadruped_sim.evaluation.scenarios import scenarios
from quadruped_sim.evaluation.score import score_of
from quadruped_sim.evaluation.trial import Trial
from quadruped_sim.worker_pool import worker_pool

FOLDER = shipped_model("aliengo").parent
MODELS = {str(path.relative_to(FOLDER).with_suffix("")): path for path in sorted(FOLDER.rglob("*.safetensors"))}
DATA = Path(__file__).resolve().parents[1] / "data"
TARGETS, WALKS = DATA / "shipped_targets.npz", DATA / "shipped_walks.json"
TOLERANCE = 1e-5  # [rad]
SCENARIOS, EPISODES, SECONDS = ("tilt", "rough_4cm", "pushes"), 2, 4.0


def is_teacher(name):
    return name.startswith("teachers")


def observations_key(name, model):
    return f"{'teacher' if is_teacher(name) else 'policy'} {model.card.interface.name}"


def targets(model, observations, batch=None):
    """The targets (T, 12) [rad] for observations (T, ...) in turn, from a cold start."""
    policy = load_policy(model, batch=batch)
    return np.stack([policy.step(row if batch is None else np.stack([row] * batch)) for row in observations])


@pytest.fixture(scope="module")
def recorded():
    with np.load(TARGETS) as arrays:
        return dict(arrays)


@pytest.mark.parametrize("name", MODELS)
def test_targets_for_recorded_observations_are_those_recorded(name, recorded):
    model = load_model(MODELS[name])
    observations = recorded[observations_key(name, model)]
    for found in (targets(model, observations), targets(model, observations, batch=2)[:, 1]):  # robot and evaluation
        np.testing.assert_allclose(found, recorded[name], rtol=0, atol=TOLERANCE)


@pytest.fixture(scope="module")
def walks():
    return measure_walks()


@pytest.mark.parametrize("name", MODELS)
def test_short_walks_have_no_falls_and_the_errors_recorded(name, walks):
    """Random changes of all targets by 1e-6 rad, more than the rounding of another CPU, change a mean error by up to
    0.03 % in these episodes; changes by 1e-4 rad change it by up to 6 %. A longer walk on rough ground amplifies more.
    """
    for scenario, kept in json.loads(WALKS.read_text())[name].items():
        assert walks[name][scenario]["falls"] == 0, scenario
        np.testing.assert_allclose(walks[name][scenario]["errors"], kept["errors"], rtol=0.05, err_msg=scenario)


def measure_walks():
    """Falls in SCENARIOS, and mean absolute errors in each: vx, vy, yaw rate, height, and roll and pitch if level."""
    parts, found = {}, {}
    with worker_pool(2) as pool:
        for name, path in MODELS.items():
            model = load_model(path)
            subject = {"teacher" if is_teacher(name) else "model": model}
            known = scenarios(load_robot(model.card.interface.name), "white")
            for key in SCENARIOS:
                scenario = replace(known[key], seconds=SECONDS)
                trial = Trial(model.card.interface.name, scenario, seed=0, number=0, size=EPISODES, **subject)
                parts[name, key] = scenario, pool.submit(trial.run)
        for (name, key), (scenario, episodes) in parts.items():
            score = score_of(scenario, episodes.result())
            errors = [*score.velocity, score.height, *(score.attitude or ())]
            found.setdefault(name, {})[key] = {"falls": score.falls, "errors": errors}
    return found


def record_targets():
    with np.load(TARGETS) as arrays:
        kept = dict(arrays)
    for name, path in MODELS.items():
        model = load_model(path)
        kept[name] = targets(model, kept[observations_key(name, model)])
    np.savez_compressed(TARGETS, **kept)


if __name__ == "__main__":
    if sys.argv[1:] == ["targets"]:
        record_targets()
    elif sys.argv[1:] == ["walks"]:
        write_whole(WALKS, json.dumps(measure_walks(), indent=1).encode())
    else:
        sys.exit(__doc__)
