"""`--ray`: a cluster of two machines with one core each gives the bytes that a process of this machine gives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from fcnet_core.cli import USAGE_ERROR, main
from fcnet_core.model_file import PolicyModel, save_model

PLAN = {
    "robot": "aliengo",
    "shards": 6,
    "robots": 2,
    "seconds": 6,
    "parts": {"walk": {"share": 1, "terrains": [{"kind": "flat"}], "setpoints": {"always": {"vx": [0.2, 0.8]}}}},
}
TIMEOUT = 240
Start = Callable[..., subprocess.Popen[str]]


class Machines:
    """A cluster's address, and its worker processes."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self._cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        self._cluster.add_node(num_cpus=1)
        self.address: str = self._cluster.address
        self.stop = self._cluster.shutdown

    def busy(self) -> list[int]:
        """Return the processes that are running a job."""
        nodes = [node.all_processes["raylet"][0].process.pid for node in self._cluster.list_all_nodes()]
        threads = [thread for node in nodes for thread in Path(f"/proc/{node}/task").iterdir()]
        workers = [int(worker) for thread in threads for worker in (thread / "children").read_text().split()]
        return [worker for worker in workers if Path(f"/proc/{worker}/cmdline").read_bytes().startswith(b"ray::_run")]


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    machines = Machines()
    yield machines
    machines.stop()


def _content(folder: Path) -> dict[str, bytes]:
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name: content for name, content in files.items() if ".partial" not in name}


def test_a_killed_workers_shard_is_made_again_and_all_bytes_are_those_of_a_local_run(
    machines: Machines, fcnet: Start, while_running: Callable[..., None], tmp_path: Path
) -> None:
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(PLAN))
    arguments = ("collect", "--config", "plan.yaml", "--out")
    far = fcnet(*arguments, "far", "--ray", machines.address, cwd=tmp_path)
    while_running(far, lambda: list(tmp_path.glob("far/shard-*")) and machines.busy())
    os.kill(machines.busy()[0], signal.SIGKILL)
    printed, errors = far.communicate(timeout=TIMEOUT)
    assert far.returncode == 0, errors
    assert "6 shards, 3,600 steps" in printed
    assert all("step/s" in line for line in errors.splitlines() if line)  # one bar, no word of the cluster's
    near = fcnet(*arguments, "near", "--processes", "1", cwd=tmp_path)
    near.communicate(timeout=TIMEOUT)
    assert len(list(tmp_path.glob("far/shard-*"))) == 6
    assert _content(tmp_path / "far") == _content(tmp_path / "near")


def test_an_evaluation_and_its_errors_are_those_of_a_local_one(
    machines: Machines, fcnet: Start, standing_policy: PolicyModel, tmp_path: Path
) -> None:
    save_model(standing_policy, tmp_path / "policy.safetensors")
    few = ("--scenarios", "stand,flat", "--episodes", "2", "--no-fail")
    arguments = ("evaluate", "policy.safetensors", *few, "--json")
    runs = [
        fcnet(*arguments, "far.json", "--ray", machines.address, cwd=tmp_path),
        fcnet(*arguments, "near.json", "--processes", "1", cwd=tmp_path),
    ]
    for run in runs:
        _, errors = run.communicate(timeout=TIMEOUT)
        assert run.returncode == 0, errors
    assert (tmp_path / "far.json").read_bytes() == (tmp_path / "near.json").read_bytes()


def test_without_a_cluster_or_without_ray_a_sentence_says_what_to_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["evaluate", "--expert", "--scenarios", "stand", "--episodes", "1", "--ray", "127.0.0.1:9"]
    assert main(arguments) == USAGE_ERROR
    assert "ray start" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(arguments) == USAGE_ERROR
    assert "requirements/ray.txt" in capsys.readouterr().err
