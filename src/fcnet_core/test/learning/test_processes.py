"""Two processes train what one trains; when one is killed the run ends with an error and can be continued."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from training_processes import TINY, assert_same_policy, start_processes

import fcnet_core
from fcnet_core.cli import USAGE_ERROR, main
from fcnet_core.model_file import load_model

STEPS = 80
# A batch of 5 crops is three for one process and two for the other, of different counts.
SETTINGS = TINY | {"batch": 5, "steps": STEPS, "validation_interval": 40}
RUN = ("config.yaml", "--data", "data", "--json", "-", "--out")
TIMEOUT = 300.0  # [s]


@pytest.fixture(scope="module")
def folder(shared_data: Path) -> Path:
    """A folder with config.yaml and data/, in which the runs are started."""
    (shared_data.parent / "config.yaml").write_text(yaml.safe_dump(SETTINGS))
    return shared_data.parent


@pytest.fixture(scope="module")
def whole(folder: Path) -> list[dict[str, Any]]:
    """The reports of an undisturbed run of two processes under torchrun."""
    path = os.pathsep.join([str(Path(fcnet_core.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "fcnet_core.learning")
    command, environment = [sys.executable, *torchrun, *RUN, "two"], {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    settings = {"cwd": folder, "env": os.environ | environment, "text": True, "timeout": TIMEOUT}
    ended = subprocess.run(command, capture_output=True, check=False, **settings)
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_two_processes_have_the_losses_and_errors_of_one_that_has_their_batch(folder, whole, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    assert main(["train", "--config", *RUN, "one"]) == 0
    *alone, _ = map(json.loads, capsys.readouterr().out.splitlines())
    assert [report["step"] for report in whole[:-1]] == [report["step"] for report in alone]
    for name in ("loss", "held_out_error", "learning_rate"):
        ones, twos = ([report[name] or 0.0 for report in reports] for reports in (alone, whole[:-1]))
        np.testing.assert_allclose(twos, ones, rtol=1e-5, err_msg=name)
    assert load_model("two/last.safetensors").card.training["steps"] == STEPS


def test_if_a_process_is_killed_the_run_ends_with_one_error_and_resume_continues_it_exactly(folder, whole) -> None:
    os.mkfifo(folder / "out.0")
    first, second = start_processes(folder, *RUN, "killed")
    with (folder / "out.0").open() as reports:
        while json.loads(reports.readline())["step"] < 30:
            pass
        second.kill()
        second.join(TIMEOUT)
        first.terminate()  # as torchrun does; the error is reported nevertheless
        reports.read()
    first.join(TIMEOUT)
    assert first.exitcode == USAGE_ERROR
    errors = [line for name in ("err.0", "err.1") for line in (folder / name).read_text().splitlines()]
    assert sum(line.startswith("fcnet: ") and "another process" in line for line in errors) == 1
    assert not (folder / "killed" / "last.safetensors").exists()
    (folder / "out.0").unlink()
    for process in start_processes(folder, *RUN, "killed", "--resume"):
        process.join(TIMEOUT)
        assert process.exitcode == 0
    resumed = [json.loads(line) for line in (folder / "out.0").read_text().splitlines()]
    assert 2 < len(resumed) < len(whole)
    for name in ("step", "loss", "held_out_error"):
        assert [line.get(name) for line in resumed] == [line.get(name) for line in whole[-len(resumed) :]]
    assert_same_policy(*(folder / name / "last.safetensors" for name in ("two", "killed")))


def test_wrong_use_is_reported_by_one_process(folder: Path) -> None:
    (folder / "err.1").unlink(missing_ok=True)
    first, second = start_processes(folder, *RUN, "none", "--steps", "0")
    first.join(TIMEOUT)
    second.terminate()  # as torchrun does
    second.join(TIMEOUT)
    assert first.exitcode == USAGE_ERROR and "steps is 0" in (folder / "err.0").read_text()
    assert not (folder / "err.1").exists() or not (folder / "err.1").read_text()
