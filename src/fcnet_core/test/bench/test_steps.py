"""The forms of a policy that `fcnet bench step` compares compute the same, and the verb writes one table a model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from policy_forms import untrained

from fcnet_core.bench.eager import FCNET_FORMS
from fcnet_core.bench.steps import check_agreement, folded_size, observations, time_forms
from fcnet_core.bench.timing import Pace
from fcnet_core.cli import main
from fcnet_core.errors import FcnetError
from fcnet_core.model_file import save_model
from fcnet_core.policies.fcnet import FCNetConfig
from fcnet_core.policies.mlp import MLPConfig
from fcnet_core.policy import load_policy


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As in `fcnet bench`: on a busy machine threads of small products wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


SMALL = FCNetConfig(hidden=16, layers=2, modes=4, window=8, decoder_hidden=8)


@pytest.mark.parametrize("form", FCNET_FORMS.values(), ids=FCNET_FORMS)
def test_an_eager_form_steps_as_the_policy_does(form) -> None:
    model = untrained(FCNetConfig())
    eager, policy = form(model), load_policy(model, "numpy")
    seen = np.random.default_rng(1).standard_normal((150, model.card.config.observation)).astype(np.float32)
    for _ in range(2):
        actions = np.array([eager.step(row) for row in seen])
        np.testing.assert_allclose(actions, [policy.step(row) for row in seen], atol=1e-5, rtol=0)
        eager.reset()
        policy.reset()


def test_forms_that_disagree_are_not_timed() -> None:
    model = untrained(SMALL)
    policies = {"NumPy": load_policy(model, "numpy"), "another": load_policy(untrained(MLPConfig()), "numpy")}
    with pytest.raises(FcnetError, match="another"):
        check_agreement(policies, observations(model))


def test_a_step_reads_the_folded_weights() -> None:
    matrices = 70 * 256 + 4 * 2 * 256**2 + 128 * 256 + 12 * 128
    assert folded_size(untrained(FCNetConfig())) == matrices + 2 * 4 * 10 * 256


@pytest.mark.parametrize(
    ("config", "references"), [(SMALL, list(FCNET_FORMS)), (MLPConfig(hidden=(8,), window=2), ["NumPy"])]
)
def test_a_policy_is_compared_with_its_eager_forms_or_with_numpy(config, references) -> None:
    table = time_forms(untrained(config), Pace(rounds=2, steps=3))
    assert table.columns[3:] == tuple(f"faster than {reference}" for reference in references)
    assert all(len(cells) == len(table.columns) for cells in table.rows.values())
    for place, reference in enumerate(references, 3):
        assert table.rows[reference][place] == "1.00 (1.00 to 1.00)"


def test_the_verb_writes_one_table_a_model(tmp_path: Path, capsys) -> None:
    names = [str(tmp_path / name) for name in ("one.safetensors", "two.safetensors")]
    save_model(untrained(SMALL), Path(names[0]))
    save_model(untrained(MLPConfig(hidden=(8,), window=2)), Path(names[1]))
    assert main(["bench", "step", *names, "--rounds", "1", "--steps", "2", "--json", str(tmp_path / "step.json")]) == 0
    written = json.loads((tmp_path / "step.json").read_text())
    assert list(written) == names
    assert "torch" in written[names[0]]["machine"] and "numba" in written[names[1]]["rows"]
    assert "published eager" in capsys.readouterr().out
    assert main(["bench", "step", names[1], "--rounds", "1", "--steps", "2", "--json", "-"]) == 0
    assert list(json.loads(capsys.readouterr().out)) == names[1:]


def test_a_missing_model_is_an_error() -> None:
    assert main(["bench", "step", "missing.safetensors"]) == 2
