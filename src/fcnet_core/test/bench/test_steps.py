"""The forms of a policy that `fcnet bench step` compares compute the same, and the verb writes one table a model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from policy_forms import untrained

from fcnet_core.bench.steps import ONNX, check_agreement, observations
from fcnet_core.cli import USAGE_ERROR, main
from fcnet_core.errors import FcnetError
from fcnet_core.learning.config import example_config
from fcnet_core.model_file import save_model
from fcnet_core.policies.fcnet import FCNetConfig
from fcnet_core.policies.mlp import MLPConfig
from fcnet_core.policy import load_policy

SMALL, MLP = (
    example_config(FCNetConfig, hidden=16, layers=2, modes=4, window=8, decoder_hidden=8),
    example_config(MLPConfig, hidden=(8,), window=2),
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As in `fcnet bench`: on a busy machine threads of small products wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_forms_that_disagree_are_not_timed() -> None:
    model = untrained(SMALL)
    policies = {ONNX: load_policy(model), "another": load_policy(untrained(MLP))}
    with pytest.raises(FcnetError, match="another"):
        check_agreement(policies, observations(model))


def test_the_verb_compares_the_runtimes_of_every_model(tmp_path: Path, capsys) -> None:
    names = [str(tmp_path / name) for name in ("fcnet.safetensors", "mlp.safetensors")]
    for name, config in zip(names, (SMALL, MLP), strict=True):
        save_model(untrained(config), Path(name))
    pace = ("--rounds", "2", "--steps", "3")
    assert main(["bench", "step", *names, *pace, "--json", str(tmp_path / "step.json")]) == 0
    written = json.loads((tmp_path / "step.json").read_text())
    assert [("numba" in table["rows"]) for table in written.values()] == [True, False]
    for name, table in written.items():
        assert name in names and table["columns"][-1] == f"faster than {ONNX}" and "torch" in table["machine"]
        assert all(len(cells) == len(table["columns"]) for cells in table["rows"].values())
        assert table["rows"][ONNX][-1] == "1.00 (1.00 to 1.00)"
    capsys.readouterr()
    assert main(["bench", "step", names[1], *pace, "--json", "-"]) == 0
    assert list(json.loads(capsys.readouterr().out)) == names[1:]


def test_a_missing_model_is_an_error() -> None:
    assert main(["bench", "step", "missing.safetensors"]) == USAGE_ERROR
