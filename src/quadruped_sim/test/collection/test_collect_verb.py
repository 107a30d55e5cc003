"""`fcnet collect`: interrupted, killed, out of disk space, and continued; on a Ray cluster, which `fcnet evaluate` uses
as well.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fcnet_core.cli import USAGE_ERROR, main
from fcnet_core.errors import SimulationError
from fcnet_core.model_file import save_model
from quadruped_sim.worker_pool import worker_pool

PLAN = {
    "robot": "aliengo",
    "shards": 10,
    "robots": 2,
    "seconds": 1,
    "parts": {"walk": {"share": 1, "terrains": [{"kind": "flat"}], "setpoints": {"always": {"vx": [0.2, 0.8]}}}},
}
SHARD_BYTES = 2 * 50 * 70 * 4
TIMEOUT = 240


@pytest.fixture(autouse=True)
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder has a plan."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(PLAN))
    return tmp_path / "plan.yaml"


def _fcnet(*arguments: str) -> subprocess.Popen[str]:
    """Start `fcnet ARGUMENTS` as a process."""
    command = [sys.executable, "-m", "fcnet_core.cli", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _wait(condition: Callable[[], Any], process: subprocess.Popen[str] | None = None) -> Any:
    """Wait until a condition is true, while the process runs, and return its value."""
    end = time.monotonic() + TIMEOUT
    while not (value := condition()):
        assert (process is None or process.poll() is None) and time.monotonic() < end
        time.sleep(0.01)
    return value


def _shards(folder: str) -> list[Path]:
    return sorted(Path(folder).glob("shard-*"))


def _content(folder: str) -> dict[str, bytes]:
    files = {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}
    return {name: content for name, content in files.items() if ".partial" not in name}


def _children(process: int) -> list[int]:
    threads = Path(f"/proc/{process}/task").iterdir()
    return [int(child) for thread in threads for child in (thread / "children").read_text().split()]


def _running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_interrupted_out_of_disk_space_and_killed_it_continues_to_the_same_bytes(capsys) -> None:
    arguments = ("collect", "--config", "plan.yaml", "--processes", "1", "--out", "cut")
    process = _fcnet(*arguments)
    _wait(lambda: _shards("cut"), process)
    children = _children(process.pid)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130 and "Traceback" not in errors
    _wait(lambda: not any(map(_running, children)))
    kept, shards = _content("cut"), _shards("cut")
    assert 0 < len(shards) < 10

    process = _fcnet(*arguments)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (SHARD_BYTES // 2, SHARD_BYTES // 2))
    _, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == USAGE_ERROR and "Traceback" not in errors
    assert errors.splitlines()[-1].startswith("fcnet: cut/shard-")
    assert _shards("cut") == shards

    process = _fcnet(*arguments)
    _wait(lambda: len(_shards("cut")) > len(shards), process)
    children = _children(process.pid)
    process.kill()
    process.communicate(timeout=TIMEOUT)
    _wait(lambda: not any(map(_running, children)))

    assert main([*arguments]) == 0
    assert "10 shards, 1,000 steps" in capsys.readouterr().out
    assert main([*arguments[:3], "--processes", "2", "--json", "-", "--out", "whole"]) == 0
    made = json.loads(capsys.readouterr().out)["shards"]
    assert sorted(shard["shard"] for shard in made) == list(range(10))
    assert _content("cut") == _content("whole")
    assert kept.items() <= _content("cut").items() and len(_shards("cut")) == 10


@pytest.mark.parametrize(
    "arguments", ["--config none.yaml", "--config plan.yaml --out /proc/data", "--config plan.yaml --student none"]
)
def test_wrong_use_is_refused_in_one_line(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["collect", "--out", "data", *arguments.split()]) == USAGE_ERROR
    assert capsys.readouterr().err.splitlines()[-1].startswith("fcnet: ")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A Ray cluster of two nodes with one core each. The second has no suite, and only the owner can read its files."""
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    mask = os.umask(0o022)
    nodes = Cluster(initialize_head=True, head_node_args=node)
    try:
        os.umask(0o077)
        path = os.environ.pop("PYTHONPATH", "")
        nodes.add_node(**node)
        os.environ["PYTHONPATH"] = path
        os.umask(mask)
        yield nodes
    finally:
        nodes.shutdown()


def _busy(node: Any) -> list[int]:
    """Return the processes of a node that are running a job."""
    workers = _children(node.all_processes["raylet"][0].process.pid)
    return [worker for worker in workers if Path(f"/proc/{worker}/cmdline").read_bytes().startswith(b"ray::_run")]


def test_on_a_cluster_killed_workers_and_nodes_lose_nothing_and_all_bytes_are_those_of_a_local_run(cluster, plan):
    plan.write_text(yaml.safe_dump(PLAN | {"shards": 6, "seconds": 6}))
    arguments = ("collect", "--config", "plan.yaml", "--out")
    first, (second,) = cluster.head_node, cluster.worker_nodes
    far = _fcnet(*arguments, "far", "--ray", cluster.address)
    _wait(lambda: {shard.stat().st_mode & 0o077 for shard in _shards("far")} == {0, 0o055}, far)  # by both nodes
    os.kill(_wait(lambda: _busy(first), far)[0], signal.SIGKILL)
    _wait(lambda: _busy(second), far)
    cluster.remove_node(second, allow_graceful=False)
    assert len(_shards("far")) < 6
    printed, errors = far.communicate(timeout=TIMEOUT)
    assert far.returncode == 0, errors
    assert "6 shards, 3,600 steps" in printed
    assert all("step/s" in line for line in errors.splitlines() if line)  # one bar, no word of the cluster's
    assert main([*arguments, "near", "--processes", "1"]) == 0
    assert len(_shards("far")) == 6
    assert _content("far") == _content("near")


def test_an_evaluation_on_a_cluster_gives_the_results_of_a_local_one(cluster, standing_policy) -> None:
    save_model(standing_policy, Path("policy.safetensors"))
    few = ("--scenarios", "stand,flat", "--episodes", "2", "--no-fail")
    for file, *place in (("far.json", "--ray", cluster.address), ("near.json", "--processes", "1")):
        assert main(["evaluate", "policy.safetensors", *few, "--json", file, *place]) == 0
    assert Path("far.json").read_bytes() == Path("near.json").read_bytes()


def test_a_job_that_a_machine_cannot_load_is_an_error_with_a_remedy(cluster) -> None:
    with pytest.raises(SimulationError, match="requirements"), worker_pool(cluster.address) as pool:
        pool.submit(_shards, "data").result()  # this file is not on the other machines


def test_without_a_cluster_or_without_ray_a_sentence_says_what_to_do(capsys, monkeypatch) -> None:
    arguments = ["evaluate", "--expert", "--scenarios", "stand", "--episodes", "1", "--ray", "127.0.0.1:9"]
    assert main(arguments) == USAGE_ERROR
    assert "ray start" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(arguments) == USAGE_ERROR
    assert "requirements/ray.txt" in capsys.readouterr().err
