"""`fcnet train` as a user runs it: what it writes and prints, and what Ctrl-C does."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from msgspec import to_builtins

import fcnet_core
from fcnet_core import FcnetError
from fcnet_core.learning.config import TrainConfig
from fcnet_core.model_file import PolicyModel, load_model
from fcnet_core.verbs import train as verb

PROGRAM = """
import argparse, sys
from fcnet_core.verbs import train
parser = argparse.ArgumentParser()
train.add_arguments(parser)
sys.exit(train.run(parser.parse_args()))
"""


@pytest.fixture
def folder(tiny_config: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with config.yaml and data/, in which the program runs."""
    settings = to_builtins(tiny_config)
    del settings["data"], settings["epochs"]
    settings["validation_interval"] = 200
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(settings))
    return tmp_path


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(Path(fcnet_core.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "--config", "config.yaml", "--out", "policy.safetensors", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def train(*arguments: str) -> int:
    """The verb in this process: importing torch once is enough."""
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    return verb.run(parser.parse_args(["--config", "config.yaml", "--out", "policy.safetensors", *arguments]))


def policy() -> PolicyModel:
    return load_model("policy.safetensors")


def test_it_writes_a_policy_and_removes_the_checkpoint(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train("--data", "data", "--seed", "5") == 0
    assert "wrote policy.safetensors, held-out error" in capsys.readouterr().out
    card = policy().card
    assert card.robot == "aliengo" and card.training["settings"]["seed"] == 5 and card.training["steps"] == 40
    assert not list((folder / "runs").iterdir())


def test_machines_get_json_lines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train("--data", "data", "--json", "--steps", "20") == 0
    output, errors = capsys.readouterr()
    *reports, result = map(json.loads, output.splitlines())
    assert errors == "" and [report["step"] for report in reports] == [10, 20]
    assert all(np.isfinite(report["loss"]) for report in reports)
    assert result["fingerprint"] == policy().fingerprint


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_and_resumed_it_gives_the_very_policy_of_an_uninterrupted_run(
    folder: Path, number: signal.Signals
) -> None:
    arguments = ("--data", "data", "--steps", "400", "--json")
    process = start(folder, *arguments)
    assert process.stdout is not None
    process.stdout.readline()  # training has begun
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "runs/policy.ckpt is written, add --resume to continue" in errors and errors.count("\n") == 1
    assert not Path("policy.safetensors").exists()
    with pytest.raises(FcnetError, match="continue it with --resume, or delete it"):
        train(*arguments)
    assert train(*arguments, "--resume") == 0
    resumed = policy()
    assert train(*arguments) == 0
    for name, tensor in policy().tensors.items():
        np.testing.assert_array_equal(tensor, resumed.tensors[name], err_msg=name)


def test_a_further_round_starts_from_the_policy_before(folder: Path) -> None:
    assert train("--data", "data") == 0
    before = policy()
    assert train("--data", "data", "--data", "data:3", "--init", "policy.safetensors") == 0
    assert policy().card.training["started_from"] == before.fingerprint
    np.testing.assert_array_equal(policy().scales["observation_std"], before.scales["observation_std"])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "no data folder was named"),
        (["--data", "nowhere"], "nowhere is not a data folder"),
        (["--data", "data", "--init", "none.safetensors"], "there is no model file none.safetensors"),
        (["--data", "data", "--resume"], "no checkpoint runs/policy.ckpt to resume"),
        (["--data", "data", "--steps", "0"], "steps"),
        (["--data", "data:lots"], "expected a weight such as 2"),
        (["--data", "data", "--config", "other.yaml"], "there is no training configuration other.yaml"),
        (["--data", "data", "--out", "policy.onnx"], "must end in .safetensors"),
    ],
)
def test_wrong_use_is_answered_in_one_sentence(folder: Path, arguments: list[str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as caught:
        train(*arguments)
    assert "\n" not in str(caught.value)
    assert not (folder / "runs").exists()
