"""A study of the A1-Walk task: the paper's networks, learning, evaluation, and going on where it was interrupted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from fcnet_core.cli import main
from fcnet_core.files import read_settings
from fcnet_study.walk_study import training
from fcnet_study.walk_study.network import Networks, WalkPolicy, WalkPPO, walk_graph
from fcnet_study.walk_study.settings import WalkConfig, WalkTraining
from fcnet_study.walk_study.training import WalkJob

STUDIES = Path(__file__).resolve().parents[3] / "config" / "study"
SETTINGS = """
architectures: [mlp, hard]
seeds: [5]
steps: 48
training:
  {robots: 4, n_steps: 4, minibatches: 2, n_epochs: 2, evaluation_interval: 16, evaluation_robots: 2,
   evaluation_periods: 12}
"""
BODIES = ("mix", "hard", "dense")


def run(folder: Path, settings: str = SETTINGS, *further: str) -> int:
    """`fcnet study walk` in a folder."""
    (folder / "settings.yaml").write_text(settings)
    options = further or ("--processes", "1")
    return main(["study", "walk", "--config", str(folder / "settings.yaml"), "--out", str(folder / "out"), *options])


def new_policy(architecture: str) -> WalkPolicy:
    spaces = Box(-np.inf, np.inf, (48,), np.float32), Box(-100.0, 100.0, (12,), np.float32)
    settings = {"architecture": architecture, "deviation": 1.0, "critic_learning_rate": 1e-3, "precision": "float32"}
    return WalkPolicy(*spaces, lambda _progress: 1e-3, **settings)


@pytest.mark.parametrize("architecture", BODIES)
def test_actor_critic_and_deviations_have_the_authors_parameters(architecture) -> None:
    policy = new_policy(architecture)
    networks = policy.mlp_extractor
    sizes = [sum(parameter.numel() for parameter in part.parameters()) for part in (networks.actor, networks.critic)]
    assert sizes == [273_292, 273_357]
    assert sum(parameter.numel() for parameter in policy.parameters()) == 546_661
    assert sum(parameter.numel() for group in policy.optimizer.param_groups for parameter in group["params"]) == 546_661


def test_the_perceptron_is_of_the_papers_width() -> None:
    networks = Networks("mlp")
    layers = [tuple(layer.weight.shape) for layer in networks.actor.layers]
    assert layers == [(150, 13 * 64), (150, 150), (13 * 64, 150)]
    assert (networks.actor.detokenizer.out_features, networks.critic.detokenizer.out_features) == (12, 1)


def test_the_graph_is_the_authors_map() -> None:
    graph = walk_graph()
    assert [node.name for node in graph.nodes][:5] == ["root", "FL_hip", "FL_thigh", "FL_calf", "FR_hip"]
    assert graph.nodes[0].observation == tuple(range(12)) and graph.nodes[0].action == ()
    assert all(
        (node.observation, node.action) == ((12 + j, 24 + j, 36 + j), (j,)) for j, node in enumerate(graph.nodes[1:])
    )
    assert (graph.mask.sum(), graph.paths.max()) == (37, 6)


@pytest.mark.parametrize("architecture", [*BODIES, "mlp"])
def test_mean_actions_are_within_one(architecture) -> None:
    policy = new_policy(architecture)
    with torch.no_grad():
        for parameter in policy.mlp_extractor.actor.detokenizer.parameters():
            parameter.mul_(1e3)
        distribution = policy.get_distribution(torch.randn(64, 48)).distribution
        assert 0.99 < distribution.mean.abs().max() <= 1.0
        assert (distribution.stddev == 1.0).all()  # as `deviation` says
        assert policy.predict_values(torch.randn(64, 48)).shape == (64, 1)


def test_only_the_mask_tells_the_bodies_apart() -> None:
    actors, seen = {name: Networks(name).actor for name in BODIES}, torch.randn(3, 1, 48)
    for actor in actors.values():
        actor.load_state_dict(actors["mix"].state_dict())
    with torch.no_grad():
        outputs = [actor(seen) for actor in actors.values()]
    assert all(not torch.allclose(outputs[one], outputs[other]) for one, other in ((0, 1), (0, 2), (1, 2)))


def test_the_actors_learning_rate_follows_the_divergence() -> None:
    learner = WalkPPO.__new__(WalkPPO)
    learner.target_kl = 0.02
    optimizer = torch.optim.Adam([{"params": torch.zeros(1)}, {"params": torch.zeros(1), "lr": 5e-4}], lr=1e-3)

    def after(divergence: float) -> float:
        learner._logger = type("Logged", (), {"name_to_value": {"train/approx_kl": divergence}})()
        learner._update_learning_rate(optimizer)
        assert optimizer.param_groups[1]["lr"] == 5e-4  # the critic's
        return optimizer.param_groups[0]["lr"]

    assert after(0.01) == 1e-3
    assert after(0.03) == pytest.approx(1e-3 / 1.5)
    assert after(0.004) == pytest.approx(1e-3)
    assert [after(0.0) for _ in range(20)][-1] == 1e-2
    assert [after(1.0) for _ in range(40)][-1] == 1e-5


def test_an_interrupted_study_goes_on_to_the_same_results(tmp_path, monkeypatch, capsys) -> None:
    evaluate, calls = training.evaluate, []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 7:  # four for the perceptron; the checkpoint of the other's third has been written
            raise KeyboardInterrupt
        return evaluate(*arguments)

    monkeypatch.setattr(training, "evaluate", interrupted)
    assert run(tmp_path) == 130
    out = tmp_path / "out"
    assert list(json.loads((out / "results.json").read_text())["rows"]) == ["mlp"]
    finished, partial = (out / "jobs" / name / "curve.json" for name in ("mlp-seed5", "hard-seed5"))
    assert [point["steps"] for point in json.loads(partial.read_text())] == [0, 16]
    before, done = json.loads(partial.read_text()), finished.stat().st_mtime_ns
    monkeypatch.undo()
    assert run(tmp_path) == 0
    assert finished.stat().st_mtime_ns == done
    assert json.loads(partial.read_text())[:2] == before
    results = json.loads((out / "results.json").read_text())
    assert list(results["rows"]) == ["mlp", "hard"]
    for architecture in ("mlp", "hard"):
        curve = results["curves"][architecture]["5"]
        assert [point["steps"] for point in curve] == [0, 16, 32, 48]
        for point in curve:
            assert 0 < point["explored_return"] < point["mean_return"] < 12 * 0.081  # they stand; noise costs
    assert "| hard |" in (out / "results.md").read_text()
    assert (out / "results.png").read_bytes().startswith(b"\x89PNG")
    files = {path: path.stat().st_mtime_ns for path in out.glob("jobs/*/*")}
    assert run(tmp_path) == 0
    assert {path: path.stat().st_mtime_ns for path in files} == files
    more = SETTINGS.replace("steps: 48", "steps: 64").replace("[mlp, hard]", "[mlp]")
    assert run(tmp_path, more) == 0
    assert [point.steps for point in WalkJob("mlp", 5, out / "jobs" / "mlp-seed5").curve()] == [0, 16, 32, 48, 64]
    capsys.readouterr()
    assert run(tmp_path, SETTINGS.replace("n_epochs: 2", "n_epochs: 3")) == 2
    assert "holds a study with another n epochs" in capsys.readouterr().err


def test_learning_changes_the_networks_that_the_checkpoint_keeps_and_a_lost_curve_begins_anew(tmp_path) -> None:
    assert run(tmp_path, SETTINGS.replace("[mlp, hard]", "[mlp]")) == 0
    learner = WalkPPO.load(tmp_path / "out" / "jobs" / "mlp-seed5" / "checkpoint.zip", device="cpu")
    assert learner.num_timesteps == 48
    assert (learner.policy.log_std != 0).all()
    assert learner.policy.mlp_extractor.actor.layers[0].bias.abs().max() > 0  # they begin at 0
    job = WalkJob("mlp", 5, tmp_path / "out" / "jobs" / "mlp-seed5")
    (job.folder / "curve.json").unlink()
    assert run(tmp_path, SETTINGS.replace("[mlp, hard]", "[mlp]")) == 0
    assert [point.steps for point in job.curve()] == [0, 16, 32, 48]


def test_products_in_bfloat16_leave_actions_and_values_as_they_are_within_a_hundredth() -> None:
    single, half = Networks("mix"), Networks("mix", "bfloat16")
    half.load_state_dict(single.state_dict())
    seen = torch.randn(64, 48, generator=torch.Generator().manual_seed(0))
    for found, expected in zip(half(seen), single(seen), strict=True):
        assert found.dtype == torch.float32
        assert 0 < (found - expected).abs().max() < 0.01 * (1 + expected.abs().max())


@pytest.mark.parametrize(
    ("given", "instead", "sentence"),
    [
        ("[mlp, hard]", "[mlp, soft]", "architectures[1] is 'soft', expected one of dense, hard, mix, mlp"),
        ("[mlp, hard]", "[mlp, mlp]", "expected every value once"),
        ("minibatches: 2", "minibatches: 3", "4 robots x 4 n_steps cannot be divided into 3 minibatches"),
        ("steps: 48", "steps: 0", "steps is 0"),
        ("n_epochs: 2", "epochs: 2", "training: Object contains unknown field `epochs`"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_in_a_sentence(given, instead, sentence, tmp_path, capsys) -> None:
    assert run(tmp_path, SETTINGS.replace(given, instead)) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and sentence in error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--processes", "3"), "4 robots cannot be divided among 3 processes"),
        (("--ray", "auto"), "give --processes in place of --ray"),
        (("--data", "somewhere"), "fcnet study walk takes no --data"),
    ],
)
def test_options_that_cannot_be_used_are_refused_in_a_sentence(options, sentence, tmp_path, capsys) -> None:
    assert run(tmp_path, SETTINGS, *options) == 2
    assert sentence in capsys.readouterr().err


def test_the_shipped_study_is_four_architectures_with_three_seeds() -> None:
    config = read_settings(STUDIES / "walk.yaml", WalkConfig, "study")
    assert config.architectures == ("mix", "hard", "dense", "mlp") and len(config.seeds) == 3


def test_settings_that_are_not_given_are_the_authors() -> None:
    published = {"n_steps": 24, "minibatches": 4, "n_epochs": 5, "clip_range": 0.2, "ent_coef": 0.01, "gamma": 0.99,
                 "gae_lambda": 0.95, "learning_rate": 1e-3, "max_grad_norm": 1.0, "deviation": 1.0}  # fmt: skip
    assert {name: getattr(WalkTraining(), name) for name in published} == published
