"""The attention of a Body Transformer over a walk: what is averaged, what the page shows, and what has none."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs
from page_reader import PageReader

from fcnet_core.arrays import ArraySpec
from fcnet_core.cli import main
from fcnet_core.learning.dataset import Dataset, DatasetWriter, Manifest
from fcnet_core.model_file import PolicyModel, save_model
from fcnet_core.observation import LAYOUT
from fcnet_core.policies.body_transformer import BodyTransformerConfig
from fcnet_core.policies.body_transformer.graph import BodyGraph, Node
from fcnet_core.policies.body_transformer.step import Sequence
from fcnet_core.policies.mlp import MLPConfig
from fcnet_study.attention import PARTS, attention_over
from fcnet_study.attention_page import NO_PHASE, page
from fcnet_study.benchmarks.steps import untrained

BAG = Path(__file__).resolve().parents[3] / "docs" / "examples" / "aliengo_walk"
SIZES = {"layers": 2, "hidden": 16, "heads": 2, "ffn_width": 16, "window": 3}
SINE, COSINE, WALKING = (LAYOUT["command"].start + entry for entry in (8, 9, 10))


def small(**sizes: object) -> PolicyModel:
    return untrained(BodyTransformerConfig(**SIZES | sizes))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Of two layers, the second without mask."""
    save_model(small(mask="mix"), tmp_path / "bot.safetensors")
    return tmp_path / "bot.safetensors"


def data(folder: Path, robot: str = "aliengo", rate: float = 50.0) -> Dataset:
    """Two episodes in one sequence, of 30 and 300 steps; walking 10 strides of 20 steps from step 130 on."""
    seen = np.random.default_rng(0).standard_normal((1, 330, 70)).astype(np.float32)
    seen[..., SINE : WALKING + 1] = 0
    angle = 2 * np.pi * np.arange(200) / 20
    seen[0, 130:, SINE], seen[0, 130:, COSINE], seen[0, 130:, WALKING] = np.sin(angle), np.cos(angle), 1
    first = np.zeros((1, 330), dtype=bool)
    first[0, [0, 30]] = True
    writer = DatasetWriter(folder, Manifest(robot, rate))
    writer.add({}, observation=seen, action=seen[..., :12], first=first)
    return Dataset(folder)


def expected_attention(model: PolicyModel, data: Dataset, *parts: slice) -> np.ndarray:
    """Of parts of the only sequence, each after a reset."""
    seen = model.normalisation.input(data.shards[0].observation[0])
    return np.concatenate([block for part in parts for block in Sequence(model).attention(seen[part])])


def test_attention_is_averaged_over_episodes_that_begin_cold_and_over_the_phases_of_the_gait(tmp_path) -> None:
    model, walks = small(), data(tmp_path / "data")
    expected = expected_attention(model, walks, slice(0, 30), slice(30, 330))
    found = attention_over(model, walks, 10**6)
    assert (found.steps, found.recorded, found.has_phase) == (330, 330, True)
    np.testing.assert_allclose(found.mean, expected.mean(0), atol=1e-6)
    np.testing.assert_allclose(found.mean.sum(-1), 1, atol=1e-6)
    strides = expected[130:].reshape(10, PARTS, *expected.shape[1:])
    np.testing.assert_allclose(found.strides, strides.mean(0), atol=1e-6)


def test_the_excerpt_begins_with_the_first_stride_of_the_longest_episode(tmp_path) -> None:
    model, walks = small(), data(tmp_path / "data")
    expected = expected_attention(model, walks, slice(30, 330))[100:250]
    np.testing.assert_allclose(attention_over(model, walks, 10**6).excerpt, expected, atol=1e-6)


def test_no_more_steps_are_taken_than_asked_for(tmp_path) -> None:
    model, walks = small(), data(tmp_path / "data")
    found = attention_over(model, walks, 50)
    assert (found.steps, found.recorded, found.has_phase) == (50, 330, False)
    expected = expected_attention(model, walks, slice(0, 30), slice(30, 50))
    np.testing.assert_allclose(found.mean, expected.mean(0), atol=1e-6)
    assert NO_PHASE in page(found, "model", "data", "aliengo").replace("&#x27;", "'")


def test_a_memory_that_is_reset_is_reset_in_the_walk(tmp_path) -> None:
    walks = data(tmp_path / "data")
    model = replace(small(), card=structs.replace(small().card, window_policy="reset_every_n"))
    parts = [slice(start, start + 3) for start in range(0, 330, 3)]  # an episode begins at 30
    expected = expected_attention(model, walks, *parts)
    np.testing.assert_allclose(attention_over(model, walks, 10**6).mean, expected.mean(0), atol=1e-6)


def test_a_bag_becomes_a_page_that_loads_nothing_and_shows_every_layer_head_and_mask(model, tmp_path) -> None:
    report = tmp_path / "attention.html"
    assert main(["attention", str(model), str(BAG), "-o", str(report)]) == 0
    content = report.read_text()
    found = PageReader(content)
    assert {"mean of all heads", "head 1", "head 2", "FR_calf"} <= set(found.words)
    lead = re.compile(r"bot.safetensors over \d+ steps \(\d.\d s\) of aliengo in aliengo_walk")
    assert any(lead.search(words) for words in found.words)
    paths = [value for name, value in found.attributes if name == "d" and value]
    crosses = [path.count("l10 10m0") for path in paths if "l10 10m0" in path]
    assert crosses == [1] + [132] * 3  # one in the legend, the 132 excluded pairs in the masked layer of each choice
    assert [words for words in found.words if words.startswith("layer 1, ")][:1] == ["layer 1, masked"]
    assert "layer 2, no mask" in found.words


def test_a_data_folder_gives_the_page_of_its_bag(model, tmp_path) -> None:
    main(["dataset", "from-bag", str(BAG), "-o", str(tmp_path / "aliengo_walk")])
    for name, source in (("bag", BAG), ("data", tmp_path / "aliengo_walk")):
        assert main(["attention", str(model), str(source), "-o", str(tmp_path / f"{name}.html")]) == 0
    assert (tmp_path / "bag.html").read_bytes() == (tmp_path / "data.html").read_bytes()


def test_a_pair_is_shown_in_the_layers_that_admit_it(model, tmp_path) -> None:
    report = tmp_path / "attention.html"
    assert main(["attention", str(model), str(BAG), "--pair", "RR_calf", "trunk", "-o", str(report)]) == 0
    labels = [value for name, value in PageReader(report.read_text()).attributes if name == "aria-label" and value]
    plots = [label.partition(" over ")[0] for label in labels if label.startswith("layer") and " over " in label]
    assert set(plots) == {"layer 2: RR_calf at trunk"}


def test_any_body_has_a_page_and_its_names_cannot_become_part_of_it(tmp_path) -> None:
    evil = "<script>alert(1)</script>\"'"
    graph = BodyGraph(
        (Node(evil, tuple(range(60)), (0,)), Node("b", tuple(range(60, 70)), tuple(range(1, 12)))), ((evil, "b"),)
    )
    found = attention_over(small(graph=graph, heads=1, mask="hard"), data(tmp_path / "data"), 1000)
    shown = PageReader(page(found, evil, evil, evil))
    assert not any("alert(1)</script>" in script for script in shown.scripts)
    assert "mean of all heads" not in shown.words


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["MLP", "BAG"], "is a policy of type mlp, in which no node of a body looks at another"),
        (["missing.safetensors", "BAG"], "there is no model file missing.safetensors"),
        (["MODEL", "missing"], "there is no data folder and no bag missing"),
        (["MODEL", "BAG", "--pair", "FR_calf", "tail"], "no node tail; choose among trunk, FR_hip"),
        (["HARD", "BAG", "--pair", "FR_calf", "trunk"], "the mask lets FR_calf look at trunk in no layer"),
        (["MODEL", "BAG", "--robot", "a1"], "is of the robot aliengo, not a1"),
        (["MODEL", "A1"], "the model's robot is aliengo, but that of A1 is a1"),
        (["MODEL", "SLOW"], "the model's rate [Hz] is 50.0, but that of SLOW is 25.0"),
        (["MODEL", "OTHER"], "the model's joints is "),
    ],
)
def test_what_has_no_attention_to_show_is_refused_in_a_sentence(
    model, tmp_path, monkeypatch, capsys, arguments, sentence
) -> None:
    monkeypatch.chdir(tmp_path)
    save_model(untrained(MLPConfig()), tmp_path / "mlp.safetensors")
    save_model(small(mask="hard"), tmp_path / "hard.safetensors")
    data(tmp_path / "A1", robot="a1")
    data(tmp_path / "SLOW", rate=25.0)
    arrays = {"observation": ArraySpec((3,)), "action": ArraySpec((2,))}
    nothing = np.zeros((1, 5, 3), np.float32)
    writer = DatasetWriter(tmp_path / "OTHER", Manifest("aliengo", 50.0, joint_names=("a", "b"), arrays=arrays))
    writer.add({}, observation=nothing, action=nothing[..., :2], first=np.zeros((1, 5), dtype=bool))
    places = {"MODEL": str(model), "BAG": str(BAG), "MLP": "mlp.safetensors", "HARD": "hard.safetensors"}
    assert main(["attention", *(places.get(one, one) for one in arguments), "-o", "page.html"]) == 2
    refusal = capsys.readouterr().err
    assert sentence in refusal and refusal.count("\n") == 1
    assert not (tmp_path / "page.html").exists()


def test_a_place_that_cannot_be_written_is_named_before_the_walk_is_read(model, tmp_path, capsys) -> None:
    assert main(["attention", str(model), "no bag", "-o", str(tmp_path)]) == 2
    assert f"{tmp_path} cannot be written" in capsys.readouterr().err
