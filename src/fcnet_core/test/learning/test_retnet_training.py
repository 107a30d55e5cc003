"""The retentive network goes the way of every policy: trained, described and exported by the verbs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import yaml

from fcnet_core.cli import main
from fcnet_core.learning import config as module
from fcnet_core.learning.config import TrainConfig, load_train_config, with_settings
from fcnet_core.learning.imitation import Imitation
from fcnet_core.policies.retnet import RetNetConfig

PRESET = Path(module.__file__).parents[1] / "config" / "train" / "retnet.yaml"
SIZES = {"layers": 2, "hidden": 16, "value_width": 32, "heads": 2, "ffn_width": 24, "window": 24}


def settings(tiny_data: Path, folder: Path, **changes: object) -> str:
    """A training configuration for the command line."""
    path = folder / "retnet.yaml"
    run = {"policy_type": "retnet", "config": SIZES, "crop": 24, "batch": 4, "steps": 40, "held_out_share": 0.2}
    path.write_text(yaml.safe_dump({**run, "data": [str(tiny_data)], **changes}))
    return str(path)


def test_the_preset_is_of_the_default_sizes_and_of_the_data_of_the_other_policies() -> None:
    retnet, fcnet = load_train_config(PRESET), load_train_config(PRESET.with_name("imitation.yaml"))
    assert retnet.policy_config == RetNetConfig()
    assert (retnet.crop, retnet.batch, retnet.epochs) == (fcnet.crop, fcnet.batch, fcnet.epochs)
    assert retnet.observation_noise == fcnet.observation_noise


def test_what_depends_on_the_past_is_learnt(tiny_config: TrainConfig) -> None:
    """Half of the actions' variance is of an observation two steps before: without a memory that half remains."""
    reports = []
    changes = {"steps": 300, "observation_noise": {}, "validation_interval": 300}
    run = Imitation(with_settings(tiny_config, policy_type="retnet", config=SIZES, **changes))
    assert run.trainer.run(reports.append, lambda: False)
    assert reports[-1].loss < 0.35 * reports[0].loss


@pytest.mark.parametrize("window_policy", ["sliding", "reset_every_n"])
def test_a_policy_is_trained_described_and_exported(
    tiny_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], window_policy: str, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = settings(tiny_data, tmp_path, window_policy=window_policy)
    assert main(["train", "--config", config, "--out", "run"]) == 0
    assert main(["info", "run/last.safetensors"]) == 0
    output = capsys.readouterr().out
    assert "retnet: observation 70" in output and "unlimited" in output and window_policy in output
    assert main(["info", "run/last.safetensors", "--json", "-"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["card"]["policy_type"] == "retnet" and facts["card"]["shape"]["heads"] == 2
    assert main(["export", "run/last.safetensors", "--onnx", "policy.onnx", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["largest_difference"] < 2e-6
    session = onnxruntime.InferenceSession("policy.onnx")
    assert [entry.name for entry in session.get_inputs()] == ["observation", "steps", "state"]
    robots = {
        "observation": np.zeros((5, 70), dtype=np.float32),
        "steps": np.zeros((5, 1)),
        "state": np.zeros((2, 5, 2, 8, 16), dtype=np.float32),
    }
    action, steps, state = session.run(["action", "next_steps", "next_state"], robots)
    assert action.shape == (5, 12) and state.shape == (2, 5, 2, 8, 16) and (steps == 1).all()


def test_sizes_that_do_not_fit_the_heads_end_in_a_sentence(
    tiny_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = settings(tiny_data, tmp_path, config={**SIZES, "heads": 3})
    assert main(["train", "--config", config, "--out", str(tmp_path / "run")]) != 0
    sentence = capsys.readouterr().err
    assert sentence.count("\n") == 1 and "hidden is 16, with heads 3 it must be a multiple of 6" in sentence
