"""`fcnet train` as a user runs it: what it writes, prints and refuses, and how it is interrupted and resumed."""

import argparse
import errno
import json
import os
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from training_processes import TINY, assert_same_policy

from fcnet_core.cli import USAGE_ERROR, main
from fcnet_core.errors import FcnetError
from fcnet_core.learning import trainer
from fcnet_core.learning.config import DEFAULT_PRESET
from fcnet_core.learning.runs import Report, RunFolder, read_run
from fcnet_core.model_file import PolicyModel, load_model
from fcnet_core.verbs import train as verb

FIRST = Path("runs/aliengo-fcnet-1")


@pytest.fixture
def folder(tiny_data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with config.yaml and data/."""
    monkeypatch.chdir(tiny_data.parent)
    Path("config.yaml").write_text(yaml.safe_dump(TINY | {"validation_interval": 200}))
    return tiny_data.parent


def train(*arguments: str) -> int:
    """Run the verb in this process: importing torch once is enough."""
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    return verb.run(parser.parse_args(["--config", "config.yaml", *arguments]))


def change_settings(**changes: Any) -> None:
    settings = yaml.safe_load(Path("config.yaml").read_text()) | changes
    Path("config.yaml").write_text(yaml.safe_dump(settings))


def last(number: int = 1) -> PolicyModel:
    return load_model(f"runs/aliengo-fcnet-{number}/last.safetensors")


def test_it_names_its_folder_and_writes_all_of_the_run_there(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train("--data", "data", "--seed", "5") == 0
    printed = capsys.readouterr().out
    assert f"training into {FIRST}" in printed and f"wrote {FIRST}/last.safetensors" in printed
    card = last().card
    assert card.interface.name == "aliengo" and card.training["settings"]["seed"] == 5 and card.training["steps"] == 40
    files = sorted(path.name for path in FIRST.iterdir())
    assert files.pop(1).startswith("events.out.tfevents.")
    assert files == ["best.safetensors", "last.safetensors", "metrics.csv", "run.json", "settings.yaml"]
    assert train("--config", f"{FIRST}/settings.yaml") == 0  # the settings as used repeat the run
    assert_same_policy(FIRST / "last.safetensors", Path("runs/aliengo-fcnet-2/last.safetensors"))


@pytest.mark.parametrize("place", ["-", "progress.jsonl"])
def test_progress_is_written_as_json_lines(place: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train("--data", "data", "--json", place, "--steps", "20") == 0
    output, errors = capsys.readouterr()
    *reports, result = map(json.loads, (output if place == "-" else Path(place).read_text()).splitlines())
    assert (errors == "") == (place == "-") and [report["step"] for report in reports] == [10, 20]
    assert all(np.isfinite(report["loss"]) for report in reports)
    assert result["fingerprint"] == last().fingerprint


def test_missing_data_are_named_without_torch(folder: Path) -> None:
    code = "import sys; sys.modules['torch'] = None; from fcnet_core.cli import main; sys.exit(main(['train']))"
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert ended.returncode == USAGE_ERROR and "--data" in ended.stderr and ended.stderr.count("\n") == 1
    assert verb.load_train_config(DEFAULT_PRESET).policy_config.parameters == 787_852


SEND = """
import contextlib, os, signal
@contextlib.contextmanager
def track(folder, settings):
    yield lambda step, values: os.kill(os.getpid(), signal.{number.name})
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_and_resumed_it_gives_the_policy_of_an_uninterrupted_run(folder, number, capsys) -> None:
    (folder / f"send_{number.name}.py").write_text(SEND.format(number=number))
    arguments = ("--data", "data", "--json", "-")
    assert train(*arguments, "--out", "run", "--track", f"send_{number.name}:track") == 130  # at the first report
    assert "--out run --resume" in capsys.readouterr().err
    assert read_run(Path("run")).facts.state == "interrupted" and not Path("run/last.safetensors").exists()
    with pytest.raises(FcnetError, match="--resume"):
        train(*arguments, "--out", "run")
    with Path("run/metrics.csv").open("a") as file:
        file.write("35,0.1,0.1,0.001,9\n35,0.1,0.")  # of a process that was killed after its last checkpoint
    assert train(*arguments, "--out", "run", "--resume") == 0
    assert train(*arguments) == 0
    resumed, whole = read_run(Path("run")), read_run(FIRST)
    assert [report[:-1] for report in resumed.reports] == [report[:-1] for report in whole.reports]  # less the time
    for name in ("best", "last"):
        assert_same_policy(Path(f"run/{name}.safetensors"), FIRST / f"{name}.safetensors")


def test_resume_without_a_name_continues_the_newest_unfinished_run_of_the_robot_and_policy(folder, monkeypatch) -> None:
    with pytest.raises(FcnetError, match="no unfinished run"):
        train("--data", "data", "--resume")
    for interrupted in (True, True, False):
        with monkeypatch.context() as patch:
            if interrupted:
                patch.setattr(verb, "_stop_on_signal", lambda: nullcontext(lambda: True))
            assert train("--data", "data") == (130 if interrupted else 0)
    assert train("--data", "data", "--resume") == 0
    states = [read_run(Path(f"runs/aliengo-fcnet-{number}")).facts.state for number in (1, 2, 3)]
    assert states == ["interrupted", "finished", "finished"]


def test_another_policy_type_is_trained_shown_and_exported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = {"connection": "fusion", "layers": 2, "hidden": 32, "window": 8}
    change_settings(policy_type="starformer", config=sizes, crop=8, steps=10, window_policy="reset_every_n")
    assert train("--data", "data") == 0
    run = "runs/aliengo-starformer-1"
    assert main(["info", run]) == main(["export", run, "--onnx", "policy.onnx"]) == 0
    printed = capsys.readouterr().out
    for fact in ("starformer: observation 70, action 12", "connection fusion", "7 steps (0.14 s)", "reset_every_n"):
        assert fact in printed
    assert Path("policy.onnx").is_file()


DATA = ("--data", "data")


@pytest.mark.parametrize(
    ("content", "arguments", "named"),
    [
        (b"", (), "no data"),
        (b"", ("--data", "data:lots"), "data:lots"),
        (b"", (*DATA, "--data", "./data:3"), "given twice"),
        (b"", (*DATA, "--init", "none.safetensors"), "none.safetensors"),
        (b"", (*DATA, "--track", "nowhere:begin"), "MODULE:FUNCTION"),
        (b"", (*DATA, "--out", "none", "--resume"), "none/checkpoint.ckpt"),
        (b"", (*DATA, "--out", "runs/p.safetensors"), "--out runs/p,"),
        (b"", (*DATA, "--out", "data"), "data is not empty"),
        (b"", (*DATA, "--out", "taken"), "taken cannot be written"),
        (b"", DATA, "runs cannot"),
        (b"", (*DATA, "--config", "other.yaml"), "other.yaml"),
        (b"crop: 24\nconfig: {observation: 60}\nsteps: 1", DATA, "observation"),  # the data have 70
    ],
)
def test_wrong_use_is_one_error_message_and_leaves_no_file(folder, content, arguments, named, capsys) -> None:
    Path("runs" if named == "runs cannot" else "taken").write_text("in the way")
    if content:
        Path("config.yaml").write_bytes(content)
    before = sorted(folder.rglob("*"))
    assert main(["train", "--config", "config.yaml", "--json", "-", *arguments]) == USAGE_ERROR
    message = capsys.readouterr().err
    assert message.startswith("fcnet: ") and named in message and message.count("\n") == 1
    assert sorted(folder.rglob("*")) == before


def test_a_run_that_diverges_ends_at_once_and_leaves_its_curve(folder, capsys) -> None:
    change_settings(learning_rate=1e6, gradient_clip=0.0, steps=400, log_interval=1, checkpoint_interval=1)
    assert main(["train", "--config", "config.yaml", "--data", "data", "--json", "-"]) == USAGE_ERROR
    message = capsys.readouterr().err
    assert "training diverged" in message and "learning_rate (1e+06)" in message and message.count("\n") == 1
    run = read_run(FIRST)
    assert run.facts.state == "failed" and "training diverged" in run.facts.reason and 0 < len(run.reports) < 400
    assert not [path for path in FIRST.iterdir() if path.suffix in (".safetensors", ".ckpt")]


OF_SAVE = RuntimeError("unexpected pos 64 vs 0")  # as torch.save raises it
OF_SAVE.__context__ = MemoryError()


@pytest.mark.parametrize("error", [MemoryError(), OF_SAVE, RuntimeError("CUDA out of memory. Tried to allocate 1 GiB")])
def test_lack_of_memory_is_one_error_message(folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def save(path: Path, content: object) -> None:
        raise error

    monkeypatch.setattr(trainer, "save_checkpoint", save)
    with pytest.raises(FcnetError, match="batch 4"):
        train("--data", "data")


def test_after_a_full_disk_resume_continues_the_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(folder: RunFolder, report: Report) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch, pytest.raises(FcnetError, match=f"{FIRST} .*--resume"):
        patch.setattr(RunFolder, "append", full)
        train("--data", "data")
    assert train("--data", "data", "--resume") == 0
    assert last().card.training["steps"] == 40
