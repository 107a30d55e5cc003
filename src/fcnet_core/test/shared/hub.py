"""A stand-in for the Hugging Face hub: repositories in memory, as far as commits of small files and downloads need."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Hub(ThreadingHTTPServer):
    """repositories: `models/OWNER/NAME` -> file -> content; private: the repositories made private."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.private: set[str] = set()

    def commit(self, repository: str) -> str:
        """The name of its present state, 40 hexadecimal digits."""
        return hashlib.sha1(repr(sorted(self.repositories[repository].items())).encode()).hexdigest()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def hub() -> Iterator[Hub]:
    with Hub() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = self.path.split("?")[0].strip("/").split("/")
        repository = "/".join(parts[1:4])
        if self.path == "/api/repos/create":
            facts = json.loads(content)
            repository = f"{facts.get('type', 'model')}s/{facts['organization']}/{facts['name']}"
            self.server.repositories.setdefault(repository, {".gitattributes": b""})
            if facts.get("visibility") == "private" or facts.get("private"):
                self.server.private.add(repository)
            self._answer({"url": f"{self.server.address}/{repository}", "name": repository})
        elif "preupload" in parts:
            mode = {"uploadMode": "regular", "shouldIgnore": False}  # not by way of the store of large files
            self._answer({"files": [{"path": file["path"], **mode} for file in json.loads(content)["files"]]})
        elif "commit" in parts:
            for line in content.decode().splitlines():
                if (entry := json.loads(line))["key"] == "file":
                    value = entry["value"]
                    self.server.repositories[repository][value["path"]] = base64.b64decode(value["content"])
            commit = self.server.commit(repository)
            self._answer({"commitUrl": f"{self.server.address}/{repository}/commit/{commit}", "commitOid": commit})
        else:
            self._answer({"errors": [], "warnings": []})

    def do_GET(self) -> None:
        parts = self.path.split("?")[0].strip("/").split("/")
        if parts[0] == "api":
            repository = "/".join(parts[1:4])
            files = self.server.repositories.get(repository)
            if files is None:
                self._answer({"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})
            elif "tree" in parts:
                tree = [{"type": "file", "path": name, "size": len(c), "oid": "0" * 40} for name, c in files.items()]
                self._answer(tree)
            else:
                facts = {"id": "/".join(parts[2:4]), "sha": self.server.commit(repository), "tags": [], "downloads": 0}
                self._answer({**facts, "private": True, "siblings": [{"rfilename": name} for name in files]})
            return
        kind = parts.pop(0) if parts[0] == "datasets" else "models"
        repository = "/".join((kind, *parts[:2]))
        content = self.server.repositories[repository].get("/".join(parts[4:]))
        if content is None:
            self._answer({"error": "Entry not found"}, 404, {"X-Error-Code": "EntryNotFound"})
            return
        facts = {"X-Repo-Commit": self.server.commit(repository), "ETag": f'"{hashlib.sha1(content).hexdigest()}"'}
        self._send(content, 200, {**facts, "Content-Type": "application/octet-stream"})

    def do_HEAD(self) -> None:
        self.do_GET()

    def _answer(self, content: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self._send(json.dumps(content).encode(), status, {"Content-Type": "application/json", **(headers or {})})

    def _send(self, content: bytes, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass
