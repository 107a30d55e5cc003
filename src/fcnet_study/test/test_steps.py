"""What is compared computes the same, and a comparison is a table that says how it came about."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from fcnet_core.cli import main
from fcnet_core.errors import StudyError
from fcnet_core.policies import policy_type, policy_type_names
from fcnet_core.policies.fcnet import FCNetConfig
from fcnet_core.policy import load_policy
from fcnet_study.benchmarks.drift import measure_drift
from fcnet_study.benchmarks.eager import EAGER
from fcnet_study.benchmarks.steps import Pace, check_agreement, folded_size, observations, time_forms, untrained
from fcnet_study.benchmarks.sweeps import Sweep, run_sweep


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As `fcnet bench`; threads of small products wait for each other, for long on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


MODELS = {name: untrained(policy_type(name).config()) for name in policy_type_names()}
SMALL = FCNetConfig(hidden=16, layers=2, modes=4, window=8, decoder_hidden=8)


@pytest.mark.parametrize(("name", "form"), [(name, form) for name in EAGER for form in EAGER[name]])
def test_an_eager_form_steps_as_the_policy_does(name, form) -> None:
    model = MODELS[name]
    eager, policy = EAGER[name][form](model), load_policy(model, "numpy")
    seen = np.random.default_rng(1).standard_normal((150, model.card.config.observation)).astype(np.float32)
    for _ in range(2):
        actions = np.array([eager.step(row) for row in seen])
        np.testing.assert_allclose(actions, [policy.step(row) for row in seen], atol=2e-6, rtol=0)
        eager.reset()
        policy.reset()


def test_every_policy_has_an_eager_form_to_be_compared_with() -> None:
    assert set(EAGER) == set(policy_type_names())


def test_forms_that_disagree_are_not_timed() -> None:
    model = MODELS["mlp"]
    policies = {"NumPy": load_policy(model, "numpy"), "another": load_policy(untrained(SMALL), "numpy")}
    with pytest.raises(StudyError, match="another differs from NumPy by"):
        check_agreement(policies, observations(model))


def test_a_step_reads_the_folded_weights() -> None:
    matrices = 70 * 256 + 4 * 2 * 256**2 + 128 * 256 + 12 * 128
    assert folded_size(MODELS["fcnet"]) == matrices + 2 * 4 * 10 * 256


def test_the_forms_of_a_policy_are_timed_beside_each_other() -> None:
    report = time_forms(untrained(SMALL), Pace(rounds=2, steps=3))
    assert list(report.rows)[:2] == ["published eager", "fastest eager"]
    assert all(len(cells) == len(report.columns) for cells in report.rows.values())
    assert report.rows["published eager"][3] == "1.00 (1.00 to 1.00)"
    assert "2 rounds of 3 steps" in report.how


def test_a_size_is_varied_with_full_memories(tmp_path) -> None:
    sweep = Sweep(
        "window n", (4, 8), {"FCNet": lambda n: FCNetConfig(hidden=16, modes=2, window=n), "Other": lambda _: SMALL}
    )
    pace = Pace(rounds=2, steps=3)
    swept = run_sweep(sweep, pace)
    assert list(swept.report(pace).rows) == ["4, eager", "4, numba", "8, eager", "8, numba"]
    swept.draw(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_rounding_does_not_grow_with_the_steps_of_a_compiled_policy() -> None:
    report = measure_drift(untrained(SMALL), 10_000)
    assert report.columns == ("after 1,000 steps", "after 10,000 steps")
    assert all(0 < float(cell) < 1e-6 for cell in report.rows["numba"])


def test_a_memory_without_end_has_no_drift_to_measure() -> None:
    with pytest.raises(StudyError, match="never forgets its beginning"):
        measure_drift(MODELS["retnet"], 1000)


def test_the_verb_writes_what_it_prints(tmp_path, capsys) -> None:
    files = [str(tmp_path / name) for name in ("step.json", "step.md")]
    assert main(["bench", "step", "--rounds", "1", "--steps", "2", "--json", files[0], "--markdown", files[1]]) == 0
    assert "published eager" in capsys.readouterr().out
    assert "torch" in json.loads((tmp_path / "step.json").read_text())["machine"]
    assert "| numba | " in (tmp_path / "step.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["step", "--figure", "a.png"], "--figure draws a size varied"),
        (["context", "model.safetensors"], "makes its own policies"),
        (["step", "missing.safetensors"], "there is no model file missing.safetensors"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_a_sentence(arguments, sentence, capsys) -> None:
    assert main(["bench", *arguments]) == 2
    assert sentence in capsys.readouterr().err
