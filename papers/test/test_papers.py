"""Every script of papers/ gives finite figures on small input; studies continue; committed results give their table."""

from __future__ import annotations

import json
import math
import pickle
import re
import shutil
import sys
from concurrent.futures import Executor, Future
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from golden import check_gradients, named, read_arrays
from policy_forms import loaded

from fcnet_core.bench import Pace
from fcnet_core.files import converted
from fcnet_core.learning.config import example_config
from fcnet_core.learning.dataset import Dataset, DatasetWriter, velocity_manifest
from fcnet_core.model_file import load_model
from fcnet_core.policies.body_transformer import BodyTransformerConfig
from fcnet_core.policies.fcnet import FCNetConfig
from fcnet_core.policies.fcnet.network import FourierControllerNetwork
from fcnet_core.policies.retnet import RetNetConfig
from fcnet_core.policies.transformer import TransformerConfig
from fcnet_core.policy import load_policy
from fcnet_core.robot import load_robot
from papers.body_transformer import walk_study
from papers.body_transformer.walk_network import Networks, TokenPerceptron, walk_graph
from papers.fcnet import step_sweeps, study, train_steps
from papers.fcnet.eager import FilterStep, RetNetStep, TransformerStep
from papers.fcnet.published import published_network
from papers.fcnet.published_step import PublishedStep
from papers.fcnet.study_jobs import Trained, write_parts
from papers.shared import untrained

PAPERS = Path(__file__).resolve().parents[1]
ROOT = PAPERS.parent
BAG = ROOT / "docs" / "examples" / "aliengo_walk"
BODY_TRANSFORMER = ROOT / "models" / "aliengo-bot-mix.safetensors"
PACE = ("--rounds", "1", "--steps", "2")
TRAIN = ROOT / "config" / "train"
STUDY = f"""
variants:
  small:
    train: {TRAIN}/imitation.yaml
    config: {{hidden: 8, layers: 1, modes: 2, window: 8, decoder_hidden: 8}}
    learning_rates: [1.0e+5, 1.0e-2]
  perceptron: {{train: {TRAIN}/mlp.yaml, config: {{hidden: [8], window: 2}}, learning_rates: [1.0e-3]}}
shares: [0.5, 1.0]
seeds: [3]
further: {{leading: 1, seeds: [4]}}
steps: 3
episodes: 2
scenarios: [stand]
"""
WALK = """
architectures: [mlp, hard]
seeds: [5]
steps: 32
training:
  {robots: 4, n_steps: 4, minibatches: 2, n_epochs: 2, evaluation_interval: 16, evaluation_robots: 2,
   evaluation_periods: 12}
"""


class Here(Executor):
    """Does the work of a pool in this process: starting a worker costs more than all jobs of a small study."""

    def submit(self, work, /, *arguments):
        done = Future()
        work, arguments = pickle.loads(pickle.dumps((work, arguments)))  # as it reaches a worker
        done.set_result(work(*arguments))
        return done


@pytest.fixture
def script(monkeypatch):
    """Return a function that runs a script with arguments, as `python -m papers.NAME` does."""
    for module in (study, walk_study):
        monkeypatch.setattr(module, "worker_pool", lambda workers: nullcontext(Here()))
    monkeypatch.setattr(study, "LATENCY", Pace(1, 1))

    def run(name: str, *arguments: object) -> None:
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        import_module(f"papers.{name}").main()

    return run


def is_picture(path: Path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG")


def figures(path: Path) -> list[float]:
    """Return the numbers in the cells of a table."""
    cells = [cell for row in json.loads(path.read_text())["rows"].values() for cell in row]
    found = [float(number.replace(",", "")) for cell in cells for number in re.findall(r"-?[\d,.]*\d|nan|inf", cell)]
    assert found
    return found


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("fcnet.spectrum", (BAG,)),
        ("fcnet.step_sweeps", ("layers", "--values", 1, *PACE)),  # two compiled sides instead of three
        ("fcnet.published_step", PACE),
        ("fcnet.train_steps", ("--windows", 8, "--bf16", "--rounds", 1)),
        ("body_transformer.attention", (BODY_TRANSFORMER, BAG, "--steps", 200)),
    ],
)
def test_a_script_gives_finite_figures_and_a_picture(script, monkeypatch, tmp_path, name, arguments) -> None:
    monkeypatch.setattr(train_steps, "PERIODS", 16)
    monkeypatch.setattr(step_sweeps, "TRIAL", Pace(1, 1))
    outputs = ["--json", tmp_path / "table.json"]
    draws = name not in ("fcnet.train_steps", "fcnet.published_step")
    if draws:
        outputs += ["--figure", tmp_path / "figure.png"]
    script(name, *arguments, *outputs)
    assert all(math.isfinite(figure) for figure in figures(tmp_path / "table.json"))
    assert not draws or is_picture(tmp_path / "figure.png")


@pytest.mark.parametrize(
    ("form", "config"),
    [
        (PublishedStep, example_config(FCNetConfig, hidden=16, layers=2, modes=4, window=12, decoder_hidden=8)),
        (FilterStep, example_config(FCNetConfig, hidden=16, layers=2, modes=4, window=12, decoder_hidden=8)),
        (TransformerStep, example_config(TransformerConfig, hidden=16, layers=2, heads=2, window=8)),
        (
            RetNetStep,
            example_config(RetNetConfig, hidden=16, layers=2, heads=2, value_width=32, ffn_width=24, window=8),
        ),
    ],
)
def test_an_eager_form_steps_as_the_policy_does(form, config) -> None:
    model = untrained(config)
    eager, policy = form(model), load_policy(model)
    seen = np.random.default_rng(1).standard_normal((30, config.observation)).astype(np.float32)
    for _ in range(2):
        actions = [eager.step(row) for row in seen]
        np.testing.assert_allclose(actions, [policy.step(row) for row in seen], atol=2e-6, rtol=0)
        eager.reset()
        policy.reset()


def test_the_published_form_has_the_outputs_and_gradients_of_the_network() -> None:
    config = example_config(FCNetConfig, hidden=16, layers=2, modes=4, window=12, decoder_hidden=8)
    network, published = FourierControllerNetwork(config), published_network(config)
    published.load_state_dict(network.state_dict())
    seen = torch.randn(3, config.window, config.observation)
    outputs = [one(seen)[0] for one in (network, published)]
    torch.testing.assert_close(*outputs, atol=1e-5, rtol=0)
    for output in outputs:
        output.square().sum().backward()
    for ours, theirs in zip(network.parameters(), published.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-4, rtol=1e-4)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """Two shards of sequences whose labels are a part of the observations."""
    folder: Path = tmp_path_factory.mktemp("data") / "walks"
    writer, rng = DatasetWriter(folder, velocity_manifest(load_robot("aliengo"), 50.0)), np.random.default_rng(0)
    for sequences in (5, 3):
        seen = rng.standard_normal((sequences, 130, 70)).astype(np.float32)
        first = np.zeros((sequences, 130), dtype=bool)
        first[:, [0, 60]] = True
        writer.add({"sequences": sequences}, observation=seen, action=0.1 * seen[..., 3:15], first=first)
    return folder


def test_parts_hold_smaller_ones_and_no_validation_data(data, tmp_path) -> None:
    write_parts(Dataset(data), tmp_path, (0.5, 1.0))
    parts = {
        name: {row.tobytes() for shard in Dataset(tmp_path / name).shards for row in shard.observation}
        for name in ("validation", "50", "100")
    }
    assert {name: len(rows) for name, rows in parts.items()} == {"validation": 2, "50": 3, "100": 6}
    assert parts["50"] < parts["100"]
    assert not parts["100"] & parts["validation"]


def test_the_learning_rate_with_the_smallest_error_is_chosen() -> None:
    facts = {"variant": "mlp", "share": 0.05, "seed": 0, "parameters": 1, "steps": 1, "seconds": 1.0}
    errors = {1e-3: 0.028, 2e-3: 0.026, 4e-3: 0.027, 8e-3: None}
    tried = [Trained(learning_rate=rate, validation_error=error, **facts) for rate, error in errors.items()]
    assert study.best_rate(tried) == 2e-3


def test_a_study_trains_walks_and_continues_also_without_the_policies_of_finished_jobs(script, data, tmp_path) -> None:
    settings, out = tmp_path / "settings.yaml", tmp_path / "out"
    settings.write_text(STUDY)
    arguments = (settings, "--data", data, "--processes", 1)
    script("fcnet.study", *arguments, "--out", out)
    rows = json.loads((out / "results.json").read_text())["rows"]
    assert list(rows) == ["small, 50 %", "perceptron, 50 %", "small, 100 %", "perceptron, 100 %"]
    assert [cells[1] for cells in rows.values()] == ["0.01", "0.001"] * 2  # with 1e5 training diverges
    assert sorted(cells[2] for cells in rows.values()) == ["1", "1", "1", "2"]  # the leading one has a further seed
    assert all(math.isfinite(figure) for figure in figures(out / "results.json")) and is_picture(out / "results.png")
    name = "perceptron-100-seed3-lr0.001"
    walked = json.loads((out / "walk" / f"{name}.json").read_text())
    assert walked["subject"]["policy"] == load_model(out / "models" / f"{name}.safetensors").fingerprint

    moved = tmp_path / "moved"
    shutil.copytree(out, moved, ignore=shutil.ignore_patterns("models", "data", "results.*"))
    (moved / "walk" / f"{name}.json").unlink()
    script("fcnet.study", *arguments, "--out", moved)
    assert [path.stem for path in (moved / "models").iterdir()] == [name]  # the only job that was repeated
    again = json.loads((moved / "results.json").read_text())["rows"]
    assert [cells[:6] for cells in again.values()] == [cells[:6] for cells in rows.values()]


COMMITTED = [("fcnet", "study", name) for name in ("data", "ablations", "policies")]


@pytest.mark.parametrize(("paper", "module", "name"), [*COMMITTED, ("body_transformer", "walk_study", "walk")])
def test_the_table_of_a_committed_study_is_made_without_its_data(script, tmp_path, paper, module, name) -> None:
    committed, copy = PAPERS / paper / "results" / name, tmp_path / name
    shutil.copytree(committed, copy, ignore=shutil.ignore_patterns("results.json"))
    script(f"{paper}.{module}", *[name] * (module == "study"), "--out", copy)
    made, kept = (json.loads((folder / "results.json").read_text())["rows"] for folder in (copy, committed))
    assert made == kept
    assert not (copy / "models").exists()


def test_a_walk_study_learns_and_continues(script, monkeypatch, tmp_path) -> None:
    evaluate, calls = walk_study.evaluate, []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 6:  # three evaluations of the perceptron; the checkpoint of the third one's job is written
            raise KeyboardInterrupt
        return evaluate(*arguments)

    settings, out = tmp_path / "settings.yaml", tmp_path / "out"
    settings.write_text(WALK)
    arguments = ("--config", settings, "--out", out, "--processes", 1)
    monkeypatch.setattr(walk_study, "evaluate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        script("body_transformer.walk_study", *arguments)
    finished, partial = (out / "jobs" / name / "curve.json" for name in ("mlp-seed5", "hard-seed5"))
    before, done = json.loads(partial.read_text()), finished.stat().st_mtime_ns
    assert [point["steps"] for point in before] == [0, 16]
    monkeypatch.setattr(walk_study, "evaluate", evaluate)
    script("body_transformer.walk_study", *arguments)
    assert finished.stat().st_mtime_ns == done
    assert json.loads(partial.read_text())[:2] == before
    results = json.loads((out / "results.json").read_text())
    assert list(results["rows"]) == ["mlp", "hard"] and is_picture(out / "results.png")
    for architecture in ("mlp", "hard"):
        curve = results["curves"][architecture]["5"]
        assert [point["steps"] for point in curve] == [0, 16, 32]
        assert all(0 < point["explored_return"] < point["mean_return"] < 12 * 0.081 for point in curve)  # they stand


def test_the_networks_of_the_walk_study_are_the_authors() -> None:
    for architecture in ("mix", "hard", "dense"):
        networks = Networks(architecture)
        sizes = [sum(weight.numel() for weight in part.parameters()) for part in (networks.actor, networks.critic)]
        assert sizes == [273_292, 273_357]
    graph = walk_graph()
    assert [node.name for node in graph.nodes][:5] == ["root", "FL_hip", "FL_thigh", "FL_calf", "FR_hip"]
    assert all(
        (node.observation, node.action) == ((12 + j, 24 + j, 36 + j), (j,)) for j, node in enumerate(graph.nodes[1:])
    )
    assert (graph.mask.sum(), graph.paths.max()) == (37, 6)


def test_the_perceptron_of_the_comparison_is_the_published_one() -> None:
    arrays = read_arrays(PAPERS / "test" / "data" / "bot_small_mlp_a.xz")
    sizes = {"hidden": 16, "ffn_width": 32, "window": 1, "positions": False}
    network = loaded(TokenPerceptron(example_config(BodyTransformerConfig, **sizes)), named(arrays, "w/"))
    output = network.act(torch.from_numpy(arrays["x"]))
    np.testing.assert_allclose(output.detach(), arrays["out"], atol=3e-6, rtol=0)
    loss = (output - torch.from_numpy(arrays["target"])).square().mean()
    assert loss.item() == pytest.approx(float(arrays["loss"]), abs=3e-6)
    loss.backward()
    check_gradients(network, named(arrays, "grad/"))
    tasks = yaml.safe_load((ROOT / "src/fcnet_core/test/data/body_graphs.yaml").read_text())
    sizes = {"mask": "hard", "window": 1, "hidden": 64, "ffn_width": 2500}
    large = TokenPerceptron(converted(tasks["mocapact"] | sizes, BodyTransformerConfig))
    assert sum(parameter.numel() for parameter in large.parameters()) == 16_696_656


@pytest.mark.parametrize("script", ["fcnet.spectrum", "body_transformer.attention"])
def test_a_script_has_every_option_that_is_needed_to_read_a_bag(monkeypatch, capsys, script) -> None:
    monkeypatch.setattr(sys, "argv", ["script", "--help"])
    with pytest.raises(SystemExit):
        import_module(f"papers.{script}").main()
    offered = capsys.readouterr().out
    assert all(option in offered for option in ("--robot", "--namespace", "--topics", "--rate"))
