"""`fcnet collect` as a process: interrupted, killed, out of disk space, and continued."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from fcnet_core.cli import USAGE_ERROR, main

PLAN = {
    "robot": "aliengo",
    "shards": 2,
    "robots": 2,
    "seconds": 1,
    "parts": {"walk": {"share": 1, "terrains": [{"kind": "flat"}], "setpoints": {"always": {"vx": [0.2, 0.8]}}}},
}
SHARD_BYTES = 2 * 50 * 70 * 4
TIMEOUT = 240


@pytest.fixture
def config(tmp_path):
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(PLAN))
    return tmp_path / "plan.yaml"


def _shards(folder: Path) -> list[Path]:
    return sorted(folder.glob("shard-*"))


def _content(folder: Path) -> dict[str, bytes]:
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name: content for name, content in files.items() if ".partial" not in name}


def _children(process: subprocess.Popen[str]) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def _wait_until_gone(children: list[int]) -> None:
    end = time.monotonic() + TIMEOUT
    while any(_running(child) for child in children):
        assert time.monotonic() < end, "worker processes were left behind"
        time.sleep(0.05)


def _running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _shrink_the_disk() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (SHARD_BYTES // 2, SHARD_BYTES // 2))


def test_interrupted_out_of_disk_space_and_killed_it_continues_to_the_same_bytes(
    fcnet, while_running, config, tmp_path
):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    arguments = ("collect", "--config", config, "--shards", "10", "--out")
    uninterrupted = fcnet(*arguments, whole, "--processes", "1", "--json", "-")

    process = fcnet(*arguments, cut)
    while_running(process, lambda: _shards(cut))
    children = _children(process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130 and "Traceback" not in errors
    _wait_until_gone(children)
    kept, shards = _content(cut), _shards(cut)
    assert 0 < len(shards) < 10

    process = fcnet(*arguments, cut, preexec_fn=_shrink_the_disk)
    _, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == USAGE_ERROR and "Traceback" not in errors
    assert errors.splitlines()[-1].startswith("fcnet: shard ")
    assert _shards(cut) == shards

    process = fcnet(*arguments, cut)
    while_running(process, lambda: len(_shards(cut)) > len(shards))
    children = _children(process)
    process.kill()
    process.communicate(timeout=TIMEOUT)
    _wait_until_gone(children)

    process = fcnet(*arguments, cut)
    printed, _ = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0 and "10 shards, 1,000 steps" in printed
    made, _ = uninterrupted.communicate(timeout=TIMEOUT)
    assert uninterrupted.returncode == 0
    assert sorted(shard["shard"] for shard in json.loads(made)["shards"]) == list(range(10))
    assert _content(cut) == _content(whole)
    assert kept.items() <= _content(cut).items() and len(_shards(cut)) == 10


@pytest.mark.parametrize(
    "arguments", ["--config none.yaml", "--config plan.yaml --out /proc/data", "--config plan.yaml --student none"]
)
def test_wrong_use_is_refused_in_one_line(arguments, config, monkeypatch, capsys):
    monkeypatch.chdir(config.parent)
    assert main(["collect", "--out", "data", *arguments.split()]) == USAGE_ERROR
    assert capsys.readouterr().err.splitlines()[-1].startswith("fcnet: ")
