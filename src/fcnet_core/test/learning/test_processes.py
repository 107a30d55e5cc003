"""Two processes that torchrun started train what one trains, and when one is killed the run can be continued."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import fcnet_core
from fcnet_core.cli import main
from fcnet_core.model_file import load_model

STEPS = 160
SETTINGS = {
    "config": {"layers": 1, "modes": 4, "hidden": 16, "decoder_hidden": 16, "window": 8},
    "crop": 24,
    "batch": 5,  # three crops for one process and two for the other, of different counts
    "steps": STEPS,
    "learning_rate": 0.01,
    "observation_noise": {"joint_velocity": 0.1},
    "held_out_share": 0.2,
    "log_interval": 10,
    "validation_interval": 20,
    "checkpoint_interval": 20,
}


@pytest.fixture(scope="module")
def folder(shared_data: Path) -> Path:
    """A folder with config.yaml and data/, in which torchrun is called."""
    (shared_data.parent / "config.yaml").write_text(yaml.safe_dump(SETTINGS))
    return shared_data.parent


def torchrun(folder: Path, out: str, *arguments: str, processes: int = 2) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(Path(fcnet_core.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"),
            *("-m", "fcnet_core.learning", "config.yaml", "--data", "data", "--out", out, "--json", "-", *arguments),
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def lines_of(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return [json.loads(line) for line in output.splitlines()]


@pytest.fixture(scope="module")
def whole(folder: Path) -> list[dict[str, Any]]:
    """What an undisturbed run of two processes prints."""
    return lines_of(torchrun(folder, "two"))


def test_two_processes_have_the_losses_and_errors_of_one_at_the_same_global_batch(
    folder: Path, whole: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    arguments = ["--config", "config.yaml", "--data", "data", "--out", "one", "--json", "-"]
    assert main(["train", *arguments]) == 0
    *alone, _ = map(json.loads, capsys.readouterr().out.splitlines())
    assert [report["step"] for report in whole[:-1]] == [report["step"] for report in alone]
    for name in ("loss", "held_out_error", "learning_rate"):
        ones, twos = ([report[name] or 0.0 for report in reports] for reports in (alone, whole[:-1]))
        np.testing.assert_allclose(twos, ones, rtol=1e-5, err_msg=name)
    assert load_model("two/last.safetensors").card.training["steps"] == STEPS


def test_a_killed_process_ends_the_run_with_a_sentence_and_resume_continues_it_exactly(
    folder: Path, whole: list[dict[str, Any]]
) -> None:
    process = torchrun(folder, "killed")
    assert process.stdout is not None
    while json.loads(process.stdout.readline())["step"] < 30:
        pass
    os.kill(max(children_of(process.pid)), signal.SIGKILL)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 1
    sentences = [line for line in errors.splitlines() if line.startswith("fcnet: ")]
    assert len(sentences) == 1 and "another process of this training has ended" in sentences[0]
    assert not (folder / "killed" / "last.safetensors").exists()
    resumed = lines_of(torchrun(folder, "killed", "--resume"))
    count = len(resumed)
    assert 2 < count < len(whole)
    for name in ("step", "loss", "held_out_error"):
        assert [line.get(name) for line in resumed] == [line.get(name) for line in whole[-count:]]
    one, two = (load_model(folder / name / "last.safetensors").tensors for name in ("two", "killed"))
    for name, tensor in one.items():
        np.testing.assert_array_equal(tensor, two[name], err_msg=name)


def test_what_all_processes_refuse_is_said_once(folder: Path) -> None:
    process = torchrun(folder, "none", "--steps", "0")
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 1
    assert errors.count("fcnet: ") == 1 and "steps is 0" in errors


def children_of(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
        if parent == pid:
            found.append(int(path.parent.name))
    return found
