"""`fcnet train` as a user runs it: what it writes and prints, and what Ctrl-C does."""

from __future__ import annotations

import argparse
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import yaml
from msgspec import to_builtins

import fcnet_core
from fcnet_core.cli import USAGE_ERROR, main
from fcnet_core.errors import FcnetError
from fcnet_core.learning import trainer
from fcnet_core.learning.config import DEFAULT_PRESET, TrainConfig
from fcnet_core.model_file import PolicyModel, load_model
from fcnet_core.runs import recorder
from fcnet_core.runs.folder import Report, RunFolder, read_run
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
        [sys.executable, "-c", PROGRAM, "--config", "config.yaml", "--out", "run", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def train(*arguments: str) -> int:
    """The verb in this process, into a new folder: importing torch once is enough."""
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    return verb.run(parser.parse_args(["--config", "config.yaml", *arguments]))


def policy(run: str = "runs/aliengo-fcnet-1") -> PolicyModel:
    return load_model(f"{run}/last.safetensors")


def test_it_names_its_folder_and_writes_all_of_the_run_there(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train("--data", "data", "--seed", "5") == 0
    printed = capsys.readouterr().out
    assert "training into runs/aliengo-fcnet-1" in printed
    assert "wrote runs/aliengo-fcnet-1/last.safetensors, validation error" in printed
    card = policy().card
    assert card.robot == "aliengo" and card.training["settings"]["seed"] == 5 and card.training["steps"] == 40
    files = sorted(path.name for path in Path("runs/aliengo-fcnet-1").iterdir())
    assert files.pop(1).startswith("events.out.tfevents.")
    assert files == ["best.safetensors", "last.safetensors", "metrics.csv", "run.json", "settings.yaml"]
    assert train("--config", "runs/aliengo-fcnet-1/settings.yaml") == 0  # the settings as used repeat the run
    for name, tensor in policy().tensors.items():
        np.testing.assert_array_equal(tensor, policy("runs/aliengo-fcnet-2").tensors[name], err_msg=name)


@pytest.mark.parametrize("place", ["-", "progress.jsonl"])
def test_progress_is_written_as_json_lines(place: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train("--data", "data", "--json", place, "--steps", "20") == 0
    output, errors = capsys.readouterr()
    *reports, result = map(json.loads, (output if place == "-" else Path(place).read_text()).splitlines())
    assert (errors == "") == (place == "-") and [report["step"] for report in reports] == [10, 20]
    assert all(np.isfinite(report["loss"]) for report in reports)
    assert result["fingerprint"] == policy().fingerprint


def test_the_default_preset_is_imitation_and_missing_data_are_named_without_torch(folder: Path) -> None:
    code = "import sys; sys.modules['torch'] = None; from fcnet_core.cli import main; sys.exit(main(sys.argv[1:]))"
    for arguments, named in (([], "--data"), (["--data", "nowhere"], "nowhere is not a data folder")):
        ended = subprocess.run(
            [sys.executable, "-c", code, "train", *arguments], check=False, capture_output=True, text=True
        )
        assert ended.returncode == USAGE_ERROR and named in ended.stderr and ended.stderr.count("\n") == 1
    assert verb.load_train_config(DEFAULT_PRESET).policy_config.parameters == 787_852


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_and_resumed_it_gives_the_very_policy_of_an_uninterrupted_run(
    folder: Path, number: signal.Signals
) -> None:
    arguments = ("--data", "data", "--steps", "400", "--json", "-")
    process = start(folder, *arguments)
    assert process.stdout is not None
    process.stdout.readline()  # training has begun
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "add --out run --resume to continue" in errors and errors.count("\n") == 1
    assert read_run(Path("run")).facts.state == "interrupted" and not Path("run/last.safetensors").exists()
    with pytest.raises(FcnetError, match="continue its run with --resume"):
        train(*arguments, "--out", "run")
    with Path("run/metrics.csv").open("a") as file:
        file.write("390,0.1,0.1,0.001,9\n390,0.1,0.")  # of a process that was killed after its last checkpoint
    assert train(*arguments, "--out", "run", "--resume") == 0
    assert train(*arguments) == 0
    resumed, whole = read_run(Path("run")), read_run(Path("runs/aliengo-fcnet-1"))
    assert [report[:-1] for report in resumed.reports] == [report[:-1] for report in whole.reports]  # less the time
    for name in ("best", "last"):
        one, two = (load_model(f"{run.name}/{name}.safetensors").tensors for run in (resumed, whole))
        for tensor in two:
            np.testing.assert_array_equal(one[tensor], two[tensor], err_msg=tensor)


def test_resume_without_a_name_continues_the_newest_unfinished_run_of_the_robot_and_policy(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FcnetError, match="no unfinished run runs/aliengo-fcnet-N to resume"):
        train("--data", "data", "--resume")
    for number in (1, 2, 3):
        if number < 3:
            monkeypatch.setattr(verb, "_stop_on_signal", lambda: nullcontext(lambda: True))
        assert train("--data", "data") == (130 if number < 3 else 0)
        monkeypatch.undo()
        monkeypatch.chdir(folder)
    assert train("--data", "data", "--resume") == 0
    states = {number: read_run(Path(f"runs/aliengo-fcnet-{number}")).facts.state for number in (1, 2, 3)}
    assert states == {1: "interrupted", 2: "finished", 3: "finished"}


SMALL = {  # policy type, its sizes, further settings, and its memory as `fcnet info` shows it
    "transformer": ("transformer", {"hidden": 16, "layers": 2, "heads": 2, "window": 8}, {}, "14 steps (0.28 s)"),
    "retnet": (
        "retnet",
        {"layers": 2, "hidden": 16, "value_width": 32, "heads": 2, "ffn_width": 24, "window": 24},
        {"window_policy": "reset_every_n"},
        "unlimited",
    ),
    **{
        connection: (
            "starformer",
            {"connection": connection, "layers": 2, "hidden": 32, "window": 8},
            {"crop": 8, "steps": 100},
            "7 steps (0.14 s)",
        )
        for connection in ("layer_wise", "fusion", "stack")
    },
}


@pytest.mark.parametrize("name", SMALL)
def test_every_policy_type_is_trained_shown_and_exported(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind, sizes, changes, memory = SMALL[name]
    settings = yaml.safe_load((folder / "config.yaml").read_text()) | {"policy_type": kind, "config": sizes} | changes
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    assert train("--data", "data", "--json", "-") == 0
    losses = [json.loads(line)["loss"] for line in capsys.readouterr().out.splitlines()[:-1]]
    assert losses[-1] < 0.8 * losses[0]
    run = f"runs/aliengo-{kind}-1"
    assert main(["info", run]) == 0
    printed = capsys.readouterr().out
    assert f"{kind}: observation 70, action 12" in printed and memory in printed
    assert settings.get("window_policy", "sliding") in printed
    assert main(["info", run, "--json", "-"]) == 0
    shape = json.loads(capsys.readouterr().out)["card"]["shape"]
    assert shape.items() >= sizes.items()
    assert main(["export", run, "--onnx", "policy.onnx", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["largest_difference"] < 1e-5
    assert Path("policy.onnx").is_file()


def test_a_further_round_starts_from_the_policy_before(folder: Path) -> None:
    assert train("--data", "data") == 0
    before = policy()
    shutil.copytree(folder / "data", folder / "more")
    first = "runs/aliengo-fcnet-1/last.safetensors"
    assert train("--data", "data", "--data", "more:3", "--init", first) == 0
    following = policy("runs/aliengo-fcnet-2")
    assert following.card.training["started_from"] == before.fingerprint
    np.testing.assert_array_equal(following.scales["observation_std"], before.scales["observation_std"])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "no data"),
        (["--data", "nowhere"], "nowhere is not a data folder"),
        (["--data", "data", "--init", "none.safetensors"], "there is no model file none.safetensors"),
        (["--data", "data", "--track", "nowhere:begin"], "MODULE:FUNCTION"),
        (["--data", "data", "--track", "json:nothing"], "MODULE:FUNCTION"),
        (["--data", "data", "--out", "none", "--resume"], "no checkpoint none/checkpoint.ckpt to resume"),
        (["--data", "data:lots"], "expected a weight such as 2"),
        (["--data", "data", "--config", "other.yaml"], "there is no training configuration other.yaml"),
        (["--data", "data", "--out", "runs/p.safetensors"], "write --out runs/p, .* will be runs/p/last.safetensors"),
        (["--data", "data", "--out", "data"], "data is not empty; name another folder"),
    ],
)
def test_wrong_use_is_answered_in_one_sentence(folder: Path, arguments: list[str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as caught:
        train(*arguments)
    assert "\n" not in str(caught.value)
    assert not (folder / "runs").exists()


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"crop: 24\nconfig: {observation: 60}\n", "observation"),  # the data have 70
        (b"crop: 24\nconfig: {action: 6}\n", "action"),
        (b"loss: l3\n", "loss is 'l3', expected one of huber, mse"),
        (b"# \xff\xfe\ncrop: 24\n", "byte 2 is 0xff, expected text in UTF-8"),
    ],
)
def test_settings_that_cannot_be_are_refused_before_anything_is_written(
    folder: Path, content: bytes, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert named in refused(folder, content + b"steps: 1\n", capsys)


def test_places_that_cannot_be_written_are_named_before_training(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "runs").write_text("in the way")
    for path in ("runs", "runs/mine"):
        assert "run.json cannot be written" in refused(folder, None, capsys, "--out", path)
    assert "run.json cannot be written" in refused(folder, None, capsys)


def test_the_same_data_folder_twice_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "given twice" in refused(folder, None, capsys, "--data", "./data:3")


def test_a_run_that_diverges_ends_at_once_and_leaves_its_curve(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = yaml.safe_load((folder / "config.yaml").read_text())
    settings |= {"learning_rate": 1e6, "gradient_clip": 0.0, "steps": 400, "log_interval": 1, "checkpoint_interval": 1}
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    assert main(["train", "--config", "config.yaml", "--data", "data", "--json", "-"]) == USAGE_ERROR
    sentence = capsys.readouterr().err
    assert "training diverged" in sentence and "learning_rate (1e+06)" in sentence and sentence.count("\n") == 1
    run = read_run(Path("runs/aliengo-fcnet-1"))
    assert run.facts.state == "failed" and "training diverged" in run.facts.reason and 0 < len(run.reports) < 400
    assert not list(Path(run.name).glob("*.safetensors")) and not list(Path(run.name).glob("*.ckpt"))


OF_SAVE = RuntimeError("unexpected pos 64 vs 0")  # as torch.save raises it
OF_SAVE.__context__ = MemoryError()


@pytest.mark.parametrize("error", [MemoryError(), OF_SAVE, RuntimeError("CUDA out of memory. Tried to allocate 1 GiB")])
def test_lack_of_memory_is_one_error_message(folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def save(path: Path, content: object) -> None:
        raise error

    monkeypatch.setattr(trainer, "save_checkpoint", save)
    with pytest.raises(FcnetError, match="too little memory for batch 4"):
        train("--data", "data")


def test_a_full_disk_ends_the_run_with_a_sentence_and_resume_continues_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(folder: RunFolder, report: Report) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(recorder, "append_report", full)
    with pytest.raises(FcnetError, match=r"runs/aliengo-fcnet-1 could not be written .*continue with --resume"):
        train("--data", "data")
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    assert train("--data", "data", "--resume") == 0
    assert policy().card.training["steps"] == 40


def refused(folder: Path, content: bytes | None, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one sentence with which `fcnet train` refuses the settings, leaving no file behind."""
    if content is not None:
        (folder / "config.yaml").write_bytes(content)
    before = sorted(folder.rglob("*"))
    assert main(["train", "--config", "config.yaml", "--data", "data", "--json", "-", *arguments]) == USAGE_ERROR
    sentence = capsys.readouterr().err
    assert sentence.startswith("fcnet: ") and sentence.count("\n") == 1
    assert sorted(folder.rglob("*")) == before
    assert content is None or "config.yaml" in sentence or "data" in sentence
    return sentence
