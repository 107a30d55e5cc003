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
    "shards": 10,
    "robots": 2,
    "seconds": 1,
    "parts": {"walk": {"share": 1, "terrains": [{"kind": "flat"}], "setpoints": {"always": {"vx": [0.2, 0.8]}}}},
}
SHARD_BYTES = 2 * 50 * 70 * 4
TIMEOUT = 90


@pytest.fixture
def config(tmp_path):
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(PLAN))
    return tmp_path / "plan.yaml"


def _shards(folder: Path) -> list[Path]:
    return sorted(folder.glob("shard-*"))


def _wait_for_a_shard(folder: Path, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + TIMEOUT
    while not _shards(folder):
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.01)


def _content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def _children(process: subprocess.Popen[str]) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def _wait_until_gone(children: list[int]) -> None:
    end = time.monotonic() + TIMEOUT
    while any(Path(f"/proc/{child}/cmdline").exists() and _running(child) for child in children):
        assert time.monotonic() < end, "worker processes were left behind"
        time.sleep(0.05)


def _running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_interrupted_and_killed_it_continues_to_the_same_bytes(fcnet, config, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    uninterrupted = fcnet("collect", "--config", config, "--out", whole, "--processes", "1", "--json", "-")

    process = fcnet("collect", "--config", config, "--out", cut)
    _wait_for_a_shard(cut, process)
    children = _children(process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130
    assert errors.splitlines()[-1].startswith("fcnet: stopped")
    assert "Traceback" not in errors
    _wait_until_gone(children)
    kept = _content(cut)

    process = fcnet("collect", "--config", config, "--out", cut)
    end = time.monotonic() + TIMEOUT
    before = len(_shards(cut))
    while len(_shards(cut)) == before:
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.01)
    children = _children(process)
    process.kill()
    process.communicate(timeout=TIMEOUT)
    _wait_until_gone(children)

    process = fcnet("collect", "--config", config, "--out", cut)
    printed, _ = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0
    assert "10 shards, 1,000 steps" in printed
    made, _ = uninterrupted.communicate(timeout=TIMEOUT)
    assert uninterrupted.returncode == 0
    assert sorted(shard["shard"] for shard in json.loads(made)["shards"]) == list(range(10))
    finished = {name: content for name, content in _content(cut).items() if ".partial" not in name}
    assert finished == _content(whole)
    complete = {name: content for name, content in kept.items() if ".partial" not in name}
    assert complete.items() <= finished.items()
    assert len(_shards(cut)) == 10


def test_a_full_disk_is_reported_in_a_sentence_and_costs_no_finished_shard(fcnet, config, tmp_path):
    folder = tmp_path / "data"
    process = fcnet("collect", "--config", config, "--out", folder)
    _wait_for_a_shard(folder, process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=TIMEOUT)
    shards = _shards(folder)
    assert 0 < len(shards) < 10

    def shrink_the_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (SHARD_BYTES // 2, SHARD_BYTES // 2))

    process = fcnet("collect", "--config", config, "--out", folder, preexec_fn=shrink_the_disk)
    _, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 2
    assert errors.splitlines()[-1].startswith("fcnet: shard ")
    assert "make room and run the same command again" in errors
    assert "Traceback" not in errors
    assert _shards(folder) == shards
    process = fcnet("collect", "--config", config, "--out", folder)
    process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0
    assert len(_shards(folder)) == 10


def test_the_command_line_may_ask_for_more_or_fewer_shards(fcnet, config, tmp_path):
    process = fcnet("collect", "--config", config, "--out", tmp_path / "data", "--shards", "2")
    process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0
    assert len(_shards(tmp_path / "data")) == 2


def test_wrong_use_is_refused_in_one_line(config, tmp_path, capsys):
    for arguments, sentence in (
        (["--config", tmp_path / "none.yaml", "--out", tmp_path / "data"], "there is no collection file"),
        (["--config", config, "--out", "/proc/data"], "choose another folder"),
        (["--config", config, "--out", tmp_path / "data", "--student", tmp_path / "none"], "there is no model file"),
    ):
        assert main(["collect", *map(str, arguments)]) == USAGE_ERROR
        errors = capsys.readouterr().err
        assert sentence in errors.splitlines()[-1]
