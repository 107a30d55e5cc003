"""Policies and data sets are loaded from the Hugging Face hub by name; a local server speaks the hub's protocol."""

import hashlib
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from huggingface_hub import constants

from fcnet_core import load_model, load_policy
from fcnet_core.cli import USAGE_ERROR, main
from fcnet_core.errors import FcnetError
from fcnet_core.learning.config import folders_and_weights
from fcnet_core.learning.dataset import Dataset, DatasetWriter, velocity_manifest
from fcnet_core.model_file import shipped_model
from fcnet_core.robot import load_robot

COMMIT = "0123456789abcdef0123456789abcdef01234567"
Repositories = dict[str, dict[str, bytes]]  # "models/OWNER/NAME" -> file -> content


class Handler(BaseHTTPRequestHandler):
    repositories: Repositories

    def do_GET(self) -> None:
        parts = self.path.partition("?")[0].strip("/").split("/")
        if parts[0] == "api":  # api/models/OWNER/NAME/revision/main or .../tree/COMMIT
            files = self.repositories.get("/".join(parts[1:4]))
            if files is None or parts[5] not in ("main", COMMIT):
                code = "RepoNotFound" if files is None else "RevisionNotFound"
                self.answer(b"{}", 404, {"X-Error-Code": code})
            elif parts[4] == "tree":
                tree = [{"type": "file", "path": name, "size": len(c), "oid": "0" * 40} for name, c in files.items()]
                self.answer(json.dumps(tree).encode())
            else:
                self.answer(json.dumps({"id": "/".join(parts[2:4]), "sha": COMMIT}).encode())
            return
        kind = parts.pop(0) if parts[0] == "datasets" else "models"
        content = self.repositories["/".join((kind, *parts[:2]))]["/".join(parts[4:])]  # OWNER/NAME/resolve/COMMIT/FILE
        digest = hashlib.sha256(content).hexdigest()
        self.answer(content, 200, {"X-Repo-Commit": COMMIT, "ETag": f'"{digest}"'})

    def do_HEAD(self) -> None:
        self.do_GET()

    def answer(self, content: bytes, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Repositories]:
    """The repositories of a hub on this machine, with an empty cache for its files."""
    repositories: Repositories = {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Hub", (Handler,), {"repositories": repositories}))
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(constants, "ENDPOINT", address)  # HF_ENDPOINT, read at import
    template = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield repositories
    server.shutdown()
    thread.join()
    server.server_close()


WALKER, OTHER = shipped_model("aliengo").read_bytes(), shipped_model("aliengo-mlp").read_bytes()


def test_a_policy_is_loaded_by_repository_revision_and_file(hub: Repositories, tmp_path: Path, capsys) -> None:
    hub["models/lab/one"] = {"walker.safetensors": WALKER, "README.md": b"# A card", "run.py": b"import os"}
    hub["models/lab/two"] = {"a/walker.safetensors": WALKER, "b.safetensors": OTHER}
    expected = load_policy("aliengo").step(np.zeros(70))
    np.testing.assert_array_equal(load_policy("hf://lab/one").step(np.zeros(70)), expected)
    assert [path.name for path in tmp_path.glob("cache/models--*/snapshots/*/*")] == ["walker.safetensors"]  # no code
    for name in ("hf://lab/one@main", f"hf://lab/one@{COMMIT}/walker.safetensors", "hf://lab/two/a/walker.safetensors"):
        assert load_model(name).fingerprint == load_model("aliengo").fingerprint
    assert load_model(Path("hf://lab/two/b.safetensors")).card.policy_type == "mlp"  # a verb's argument may be a Path
    assert main(["info", "hf://lab/one"]) == 0 and "aliengo" in capsys.readouterr().out


def test_what_was_fetched_once_is_there_without_a_network(hub: Repositories, monkeypatch: pytest.MonkeyPatch) -> None:
    hub["models/lab/one"] = {"walker.safetensors": WALKER}
    load_model("hf://lab/one")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert load_model("hf://lab/one").fingerprint == load_model("aliengo").fingerprint
    with pytest.raises(FcnetError):
        load_model("hf://lab/other")


BAD = ("", "/one/../x", "/unknown", "/one@unknown", "/one/other.safetensors", "/none", "/two", "/code")


@pytest.mark.parametrize("name", [f"hf://lab{rest}" for rest in BAD])
def test_a_name_that_is_not_one_policy_is_one_error_message(name: str, hub: Repositories, capsys) -> None:
    hub["models/lab/one"] = {"walker.safetensors": WALKER}
    hub["models/lab/none"] = {"README.md": b"# Nothing"}
    hub["models/lab/two"] = {"a.safetensors": WALKER, "b.safetensors": WALKER}
    hub["models/lab/code"] = {"a.safetensors": b"import os"}
    assert main(["info", name]) == USAGE_ERROR
    assert capsys.readouterr().err.count("\n") == 1


def test_a_hub_out_of_reach_and_a_missing_library_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(FcnetError):
        load_model("hf://lab/one")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(FcnetError, match=r"requirements/sharing\.txt"):
        load_model("hf://lab/one")


def test_a_data_set_is_loaded_by_name_and_may_have_a_weight(hub: Repositories, tmp_path: Path) -> None:
    writer = DatasetWriter(tmp_path / "data", velocity_manifest(load_robot("aliengo"), 50.0, {"source": "collect"}))
    arrays = {"observation": np.ones((2, 3, 70)), "action": np.ones((2, 3, 12)), "first": np.eye(2, 3, dtype=bool)}
    writer.write_shard(0, {"seed": 1}, **arrays)
    files = {path.relative_to(writer.folder).as_posix(): path for path in writer.folder.rglob("*") if path.is_file()}
    hub["datasets/lab/walks"] = {name: path.read_bytes() for name, path in files.items()} | {"run.py": b""}
    data = Dataset("hf://lab/walks")
    assert data.manifest.description == {"source": "collect"} and data.steps == 6
    np.testing.assert_array_equal(data.shards[0].action, arrays["action"])
    assert not (data.folders[0] / "run.py").exists()
    folders = ["hf://lab/walks", "hf://lab/more@main"]
    assert folders_and_weights((folders[0], f"{folders[1]}:2")) == (folders, [1.0, 2.0])
