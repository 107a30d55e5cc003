"""A study trains on parts of the data, chooses learning rates, compares, and goes on where it was interrupted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fcnet_core.cli import main
from fcnet_core.errors import StudyError
from fcnet_core.learning.dataset import Dataset, DatasetWriter, Manifest
from fcnet_core.model_file import load_model
from fcnet_core.policies import policy_type_names
from fcnet_core.policies.mlp import MLPConfig
from fcnet_core.policy import load_policy
from fcnet_study.benchmarks.steps import untrained
from fcnet_study.data_study.jobs import Trained, validation_error
from fcnet_study.data_study.parts import write_parts
from fcnet_study.data_study.settings import load_plan
from fcnet_study.data_study.study import Results, best_rate

TRAIN = Path(__file__).resolve().parents[3] / "config" / "train"
STUDIES = TRAIN.parent / "study"
SETTINGS = f"""
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


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two shards of sequences, whose labels are a part of what is seen."""
    folder: Path = tmp_path_factory.mktemp("data") / "walks"
    writer, rng = DatasetWriter(folder, Manifest("aliengo", 50.0)), np.random.default_rng(0)
    for sequences in (5, 3):
        seen = rng.standard_normal((sequences, 130, 70)).astype(np.float32)
        first = np.zeros((sequences, 130), dtype=bool)
        first[:, [0, 60]] = True
        writer.add({"sequences": sequences}, observation=seen, action=0.1 * seen[..., 3:15], first=first)
    return folder


@pytest.fixture(scope="module")
def study(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished study, beside its settings."""
    folder: Path = tmp_path_factory.mktemp("study")
    (folder / "settings.yaml").write_text(SETTINGS)
    assert run(folder, data) == 0
    return folder / "out"


def run(folder: Path, data: Path) -> int:
    """`fcnet study data` by the settings in a folder."""
    settings, out = str(folder / "settings.yaml"), str(folder / "out")
    return main(["study", "data", "--config", settings, "--data", str(data), "--out", out, "--processes", "1"])


def test_parts_hold_smaller_ones_and_nothing_of_the_validation_data(data, tmp_path) -> None:
    write_parts(Dataset(data), tmp_path, (0.5, 1.0))
    parts = {
        name: {row.tobytes() for shard in Dataset(tmp_path / name).shards for row in shard.observation}
        for name in ("validation", "50", "100")
    }
    assert {name: len(rows) for name, rows in parts.items()} == {"validation": 2, "50": 3, "100": 6}
    assert parts["50"] < parts["100"]
    assert not parts["100"] & parts["validation"]


def test_the_validation_error_is_that_of_a_policy_that_forgets_between_episodes(data) -> None:
    model, recorded = untrained(MLPConfig(hidden=(8,), window=4)), Dataset(data)
    policy, errors = load_policy(model, "numpy"), []
    for shard in recorded.shards:
        for first, seen, wanted in zip(shard.first, shard.observation, shard.action, strict=True):
            for begins, observation, label in zip(first, seen, wanted, strict=True):
                if begins:
                    policy.reset()
                errors.append(policy.step(observation) - label)
    assert validation_error(model, recorded) == pytest.approx(np.sqrt(np.mean(np.square(errors))), rel=1e-6)


def test_every_variant_is_trained_on_every_share_and_walks(study) -> None:
    rows = json.loads((study / "results.json").read_text())["rows"]
    assert list(rows) == ["small, 50 %", "perceptron, 50 %", "small, 100 %", "perceptron, 100 %"]
    job = json.loads((study / "train" / "small-100-seed3-lr0.01.json").read_text())
    assert rows["small, 100 %"][3] == f"{1e3 * job['validation_error']:.2f}"
    walked = json.loads((study / "walk" / "small-100-seed3-lr0.01.json").read_text())
    assert walked["scenarios"]["stand"]["episodes"] == 2
    assert (
        walked["subject"]["policy"] == load_model(study / "models" / "small-100-seed3-lr0.01.safetensors").fingerprint
    )
    assert (study / "results.png").read_bytes().startswith(b"\x89PNG")


def test_a_learning_rate_with_which_training_diverges_is_not_chosen(study) -> None:
    tried = json.loads((study / "train" / "small-50-seed3-lr100000.json").read_text())
    assert tried["validation_error"] is None
    rows = json.loads((study / "results.json").read_text())["rows"]
    assert [cells[1] for cells in rows.values()] == ["0.01", "0.001", "0.01", "0.001"]


def test_of_several_learning_rates_that_with_the_smallest_error_is_chosen() -> None:
    facts = {"variant": "mlp", "share": 0.05, "seed": 0, "parameters": 1, "steps": 1, "seconds": 1.0}
    errors = {1e-3: 0.028, 2e-3: 0.026, 4e-3: 0.027, 8e-3: None}
    tried = [Trained(learning_rate=rate, validation_error=error, **facts) for rate, error in errors.items()]
    assert best_rate(tried) == 2e-3
    with pytest.raises(StudyError, match="diverged with every learning rate"):
        best_rate(tried[3:])


def test_the_leading_variants_are_those_of_the_return_that_the_table_shows() -> None:
    def walked(flat: float, random_5min: float) -> SimpleNamespace:
        names = {"flat": flat, "random_5min": random_5min}  # the latter has other commands than the expert's
        return SimpleNamespace(scenarios={name: SimpleNamespace(mean_return=value) for name, value in names.items()})

    trained = {name: SimpleNamespace(variant=name, share=0.1) for name in ("long", "short")}
    plan = SimpleNamespace(config=SimpleNamespace(variants=trained))
    results = Results(plan, trained, {"long": walked(8, 200), "short": walked(9, 100)}, walked(10, 200), {})  # type: ignore[arg-type]
    assert results.leading(0.1, 1) == ["short"]


def test_further_seeds_are_for_the_variants_that_walk_best_on_the_smallest_share(study) -> None:
    walked = {path.stem: json.loads(path.read_text())["scenarios"]["stand"] for path in (study / "walk").iterdir()}
    (again,) = (name for name in walked if "seed4" in name)
    first = {name: score["mean_return"] for name, score in walked.items() if "-50-seed3" in name}
    assert again.replace("seed4", "seed3") == max(first, key=lambda name: first[name])
    rows = json.loads((study / "results.json").read_text())["rows"]
    assert sorted(cells[2] for cells in rows.values()) == ["1", "1", "1", "2"]


def test_a_study_goes_on_with_the_jobs_that_were_not_finished(study, data) -> None:
    before = json.loads((study / "results.json").read_text())["rows"]
    files = sorted((study / "train").iterdir()) + sorted((study / "walk").iterdir())
    lost = {path for path in files if path.name.startswith("perceptron-100")}
    assert len(lost) == 2
    written = {path: path.stat().st_mtime_ns for path in files}
    for path in lost:
        path.unlink()
    assert run(study.parent, data) == 0
    assert {path for path in files if path.stat().st_mtime_ns != written[path]} == lost
    after = json.loads((study / "results.json").read_text())["rows"]
    assert [cells[:6] for cells in after.values()] == [cells[:6] for cells in before.values()]


def test_a_study_goes_on_elsewhere_without_the_policies_of_finished_jobs(study, data, tmp_path) -> None:
    shutil.copytree(study, tmp_path / "out", ignore=shutil.ignore_patterns("models", "data", "results.*"))
    (tmp_path / "settings.yaml").write_text(SETTINGS)
    walked = tmp_path / "out" / "walk" / "perceptron-100-seed3-lr0.001.json"
    walked.write_text(json.dumps({**json.loads(walked.read_text()), "scenarios": {}}))  # interrupted as it walked
    assert run(tmp_path, data) == 0
    assert [path.stem for path in (tmp_path / "out" / "models").iterdir()] == ["perceptron-100-seed3-lr0.001"]
    kept, moved = (json.loads((folder / "results.json").read_text())["rows"] for folder in (study, tmp_path / "out"))
    assert [cells[:6] for cells in moved.values()] == [cells[:6] for cells in kept.values()]


def test_of_a_finished_study_only_the_table_is_made(study, data, tmp_path) -> None:
    shutil.copytree(study, tmp_path / "out", ignore=shutil.ignore_patterns("models", "data", "results.*"))
    (tmp_path / "settings.yaml").write_text(SETTINGS)
    assert run(tmp_path, data) == 0
    assert not (tmp_path / "out" / "data").exists()
    assert (tmp_path / "out" / "results.md").exists()


def test_a_folder_with_another_study_is_left_as_it_is(study, data, tmp_path, capsys) -> None:
    (tmp_path / "settings.yaml").write_text(SETTINGS.replace("steps: 3", "steps: 4"))
    (tmp_path / "out").symlink_to(study)
    assert run(tmp_path, data) == 2
    assert "holds a study with another study, training" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "instead", "sentence"),
    [
        ("shares: [0.5, 1.0]", "shares: [0.5, 1.5]", "shares[1] is 1.5, expected `float` <= 1.0"),
        ("[4]", "[3]", "further.seeds is [3], expected others than [3]"),
        ("\nseeds: [3]", "\nseeds: [3, 3]", "seeds is [3, 3], expected every value once"),
        ("hidden: 8", "hidden: 0", "variants.small: hidden is 0"),
        ("imitation.yaml", "missing.yaml", "there is no training configuration"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_in_a_sentence(given, instead, sentence, tmp_path) -> None:
    (tmp_path / "settings.yaml").write_text(SETTINGS.replace(given, instead))
    with pytest.raises(ValueError, match=r"^[^\n]*$") as refused:
        load_plan(tmp_path / "settings.yaml")
    assert sentence in str(refused.value)


def test_data_of_another_rate_are_refused(tmp_path, capsys) -> None:
    writer = DatasetWriter(tmp_path / "data", Manifest("aliengo", 10.0))
    nothing = np.zeros((2, 5, 70), dtype=np.float32)
    writer.add({}, observation=nothing, action=nothing[..., :12], first=np.zeros((2, 5), dtype=bool))
    (tmp_path / "settings.yaml").write_text(SETTINGS)
    assert run(tmp_path, tmp_path / "data") == 2
    assert "the data are of 10 Hz" in capsys.readouterr().err


def test_data_without_a_second_sequence_leave_nothing_to_validate(tmp_path) -> None:
    writer = DatasetWriter(tmp_path / "data", Manifest("aliengo", 50.0))
    nothing = np.zeros((1, 5, 70), dtype=np.float32)
    writer.add({}, observation=nothing, action=nothing[..., :12], first=np.zeros((1, 5), dtype=bool))
    with pytest.raises(StudyError, match="no shard of"):
        write_parts(Dataset(tmp_path / "data"), tmp_path / "parts", (1.0,))


def test_the_kinds_of_policies_that_the_suite_compares_are_of_equal_size() -> None:
    plan = load_plan(STUDIES / "data.yaml")
    sizes = [settings.policy_config.parameters for settings in plan.train.values()]
    assert len(sizes) == 4
    assert max(sizes) < 1.05 * min(sizes)
    assert {settings.crop * settings.batch for settings in plan.train.values()} == {1024}


def test_every_ablation_changes_one_size() -> None:
    train = load_plan(STUDIES / "ablations.yaml").train
    base = train.pop("base").entries["config"]
    for name, settings in train.items():
        changed = {size for size, value in settings.entries["config"].items() if value != base[size]}
        assert changed - {"modes"} == ({name.split("-")[0]} - {"modes"}), name


def test_the_study_of_policies_has_every_kind_that_the_suite_offers() -> None:
    plan = load_plan(STUDIES / "policies.yaml")
    assert {settings.policy_type for settings in plan.train.values()} == set(policy_type_names())
    masks = {settings.entries["config"].get("mask") for settings in plan.train.values()}
    assert masks == {None, "mix", "hard", "dense", "soft"}
