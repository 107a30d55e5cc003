"""Policies and datasets handed on: what arrives is what was pushed, or nothing arrives."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hub import Hub, hub

from fcnet_core.cli import USAGE_ERROR, main
from fcnet_core.learning.dataset import Dataset, DatasetWriter, Manifest
from fcnet_core.model_file import load_model, shipped_model
from fcnet_core.sharing import SUMS, is_hub


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch) -> None:
    """Nothing is fetched into the repository."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def policy(tmp_path) -> Path:
    path = tmp_path / "walker.safetensors"
    path.write_bytes(shipped_model("a1").read_bytes())
    path.with_suffix(".md").write_text("# A card\n")
    return path


@pytest.fixture
def data(tmp_path) -> Path:
    writer = DatasetWriter(tmp_path / "data", Manifest("aliengo", 50.0, {"source": "collect"}))
    arrays = {"observation": np.ones((2, 3, 70)), "action": np.ones((2, 3, 12)), "first": np.eye(2, 3, dtype=bool)}
    writer.write_shard(0, {"seed": 1}, **arrays)
    assert Dataset(writer.folder).statistics  # keeps sums in the folder, which say nothing elsewhere
    return writer.folder


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def sum_up(folder: Path) -> None:
    """The list of checksums that fits the files as they are now."""
    files = {name: file for name, file in content(folder).items() if name != SUMS}
    lines = [f"{hashlib.sha256(file).hexdigest()}  {name}\n" for name, file in files.items()]
    (folder / SUMS).write_text("".join(lines))


def test_a_policy_arrives_with_its_card(policy, tmp_path, capsys) -> None:
    assert main(["push", str(policy), str(tmp_path / "shared/walker")]) == 0
    assert main(["pull", str(tmp_path / "shared/walker")]) == 0  # into a folder of that name, here
    found = content(tmp_path / "walker")
    assert found.keys() == {"README.md", SUMS, "walker.safetensors"}
    assert found["walker.safetensors"] == policy.read_bytes() and found["README.md"] == b"# A card\n"
    assert load_model(tmp_path / "walker/walker.safetensors").fingerprint == load_model(policy).fingerprint
    assert hashlib.sha256(policy.read_bytes()).hexdigest() + "  walker.safetensors" in found[SUMS].decode().splitlines()


def test_the_best_policy_of_a_run_arrives_with_its_evaluation(policy, tmp_path) -> None:
    (run := tmp_path / "run").mkdir()
    policy.rename(run / "best.safetensors")
    (run / "evaluation.md").write_text("# Walks\n")
    assert main(["push", str(run), str(tmp_path / "shared/run")]) == 0
    assert content(tmp_path / "shared/run").keys() == {"README.md", SUMS, "best.safetensors"}


def test_a_policy_that_ships_is_pushed_by_its_name(tmp_path) -> None:
    assert main(["push", "a1", str(tmp_path / "shared/a1")]) == 0
    assert content(tmp_path / "shared/a1").keys() == {"README.md", SUMS, "a1.safetensors"}


def test_a_dataset_arrives(data, tmp_path) -> None:
    assert main(["push", str(data), "./shared/data"]) == 0
    (tmp_path / "shared/data/notes.txt").write_text("not pushed")
    assert main(["pull", "shared/data", "-o", "there"]) == 0
    found, source = content(tmp_path / "there"), content(data)
    assert found.keys() == source.keys() - {"statistics.json"} | {SUMS}
    assert all(found[name] == file for name, file in source.items() if name != "statistics.json")
    assert main(["push", "there", "again"]) == 0 and content(tmp_path / "again") == found


def damage(path: Path) -> None:
    file = bytearray(path.read_bytes())
    file[len(file) // 2] ^= 1
    path.write_bytes(file)


def replace(folder: Path, file: bytes) -> None:
    """Another file in the policy's place, and a list of checksums that says so."""
    (folder / "walker.safetensors").write_bytes(file)
    sum_up(folder)


def name(folder: Path, other: str) -> None:
    (folder / SUMS).write_text(f"{'0' * 64}  {other}\n")


DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a bit": (lambda d: damage(d / "walker.safetensors"), "is not the file that was pushed"),
    "the card": (lambda d: damage(d / "README.md"), "is not the file that was pushed"),
    "missing": (lambda d: (d / "README.md").unlink(), "lacks README.md"),
    "no sums": (lambda d: (d / SUMS).unlink(), "has no SHA256SUMS"),
    "sums": (lambda d: damage(d / SUMS), "of"),
    "no line": (lambda d: (d / SUMS).write_text("walker\n"), "has the line 'walker'"),
    "no text": (lambda d: (d / SUMS).write_bytes(b"\xff\xfe\n"), "cannot be used"),
    "above": (lambda d: name(d, "../walker.safetensors"), "../walker.safetensors"),
    "absolute": (lambda d: name(d, "/etc/passwd"), "cannot be used"),
    "nowhere": (lambda d: name(d, "."), "cannot be used"),
    "hidden": (lambda d: name(d, ".bashrc"), "cannot be used"),
    "no policy": (lambda d: replace(d, b"import os"), "is damaged or no model"),
    "nothing": (lambda d: ((d / "walker.safetensors").unlink(), sum_up(d)), "is neither a policy file nor"),
}


@pytest.mark.parametrize("way", DAMAGES)
def test_what_is_not_as_it_was_pushed_or_not_sound_does_not_arrive(way, policy, tmp_path, capsys) -> None:
    assert main(["push", str(policy), "./shared"]) == 0
    change, sentence = DAMAGES[way]
    change(tmp_path / "shared")
    capsys.readouterr()
    assert main(["pull", "shared", "-o", "there"]) == USAGE_ERROR
    told = capsys.readouterr().err
    assert sentence in told and len(told.splitlines()) == 1
    assert not [path for path in tmp_path.iterdir() if "there" in path.name]


def test_what_is_neither_policy_nor_data_or_is_damaged_is_not_pushed(policy, data, tmp_path, capsys) -> None:
    (data / "shard-00000/action.npy").unlink()
    damage(policy.with_suffix(".md"))
    (tmp_path / "text.safetensors").write_text("text")
    for source, sentence in (
        (tmp_path / "none", "is neither a policy file nor the folder of a dataset"),
        (policy.with_suffix(".md"), "is damaged or no model"),
        (tmp_path / "text.safetensors", "is damaged or no model"),
        (data, "is incomplete or damaged"),
    ):
        assert main(["push", str(source), "there"]) == USAGE_ERROR
        assert sentence in capsys.readouterr().err
    assert not [path for path in tmp_path.iterdir() if "there" in path.name]


def test_no_folder_is_overwritten(policy, tmp_path, capsys) -> None:
    assert main(["push", str(policy), "shared"]) == 0
    before = content(tmp_path / "shared")
    assert main(["push", str(policy), "shared"]) == USAGE_ERROR
    assert main(["pull", "shared", "-o", "shared"]) == USAGE_ERROR
    assert capsys.readouterr().err.count("exists already") == 2
    assert content(tmp_path / "shared") == before


def test_owner_and_name_are_the_hubs_where_there_is_no_such_folder(tmp_path) -> None:
    (tmp_path / "data").mkdir()
    assert is_hub("my-lab/aliengo") and is_hub("lab/a.b_c")
    assert not any(map(is_hub, ("aliengo", "./my-lab/aliengo", "/my-lab", "my-lab/a/b", "../x", "data/new", "lab/")))


@pytest.fixture
def server(monkeypatch, tmp_path) -> Iterator[Hub]:
    with hub() as started:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", started.address)  # HF_ENDPOINT, read at import
        url = f"{started.address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", url)
        yield started


def test_the_hub_gives_back_what_was_pushed_to_it(server, policy, data, tmp_path) -> None:
    for source, place, kind in ((policy, "lab/walker", "models"), (data, "lab/walks", "datasets")):
        assert main(["push", str(source), place]) == 0
        assert main(["push", str(source), f"./{place.partition('/')[2]}-folder"]) == 0
        assert main(["pull", place]) == 0
        folder = tmp_path / place.partition("/")[2]
        assert content(folder) == content(folder.with_name(f"{folder.name}-folder"))
        assert f"{kind}/{place}" in server.private


def test_what_the_hub_changed_or_lacks_does_not_arrive(server, policy, tmp_path, capsys) -> None:
    assert main(["push", str(policy), "lab/walker"]) == 0
    files = server.repositories["models/lab/walker"]
    files["README.md"] += b"!"
    assert main(["pull", "lab/walker", "-o", "there"]) == USAGE_ERROR
    del files["README.md"]
    assert main(["pull", "lab/walker", "-o", "there"]) == USAGE_ERROR
    del files[SUMS]
    assert main(["pull", "lab/walker", "-o", "there"]) == USAGE_ERROR
    assert main(["pull", "lab/unknown", "-o", "there"]) == USAGE_ERROR
    changed, missing, without, unknown = capsys.readouterr().err.splitlines()
    assert "is not the file" in changed and "lacks README.md" in missing
    assert f"has no {SUMS}" in without and "lab/unknown on the hub" in unknown
    assert not [path for path in tmp_path.iterdir() if "there" in path.name]


def test_a_hub_out_of_reach_and_a_missing_client_are_sentences(policy, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    assert main(["push", str(policy), "lab/walker"]) == USAGE_ERROR
    assert main(["pull", "lab/walker"]) == USAGE_ERROR
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert main(["push", str(policy), "lab/walker"]) == USAGE_ERROR
    *unreachable, missing = capsys.readouterr().err.splitlines()
    assert len(unreachable) == 2 and all("lab/walker" in line for line in unreachable)
    assert "requirements/sharing.txt" in missing
