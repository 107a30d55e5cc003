"""Other machines in a process of its own: mounts, users and locales that are real there and nowhere else."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
NOBODY = 54321  # a user without an entry in passwd
PATIENCE = 120.0  # [s], for a loaded machine


def can_mount() -> bool:
    """Whether this user may mount in a namespace of its own."""
    return bool(shutil.which("unshare")) and subprocess.run(["unshare", "-m", "true"]).returncode == 0


needs_mounts = pytest.mark.skipif(os.geteuid() != 0 or not can_mount(), reason="mounts and other users need root")
READ_ONLY = f"mount --bind {ROOT} {ROOT}; mount -o remount,bind,ro {ROOT}"


def small_disk(folder: Path, size: str = "100k", files: int = 0) -> str:
    """Return the command that mounts a disk of a size, for so many files, at a folder."""
    folder.mkdir()
    return f"mount -t tmpfs -o size={size},nr_inodes={files} none {folder}"


def open_to_all(folder: Path) -> None:
    """Let every user enter a folder of this user, and the folders of this user in which it is."""
    for path in (folder, *folder.parents):
        if path.stat().st_uid == os.geteuid() and not path.stat().st_mode & 0o001:
            path.chmod(0o755)


def run(before: list[str], *command: str, user: int = 0, **variables: str | None) -> subprocess.CompletedProcess[str]:
    """Run Python with `command` after the shell commands `before`, as `user`; variables: None removes one."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **variables}
    given = {name: value for name, value in environment.items() if value is not None}
    words = [sys.executable, *command]
    if user:
        before = [*before, *reachable()]
        words = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *words]
    script = "\n".join([*before, f"exec {shlex.join(words)}"])
    place = ["unshare", "-m"] if before else []
    return subprocess.run(
        [*place, "bash", "-ec", script], env=given, capture_output=True, encoding="utf-8", errors="replace",
        timeout=PATIENCE, check=False,
    )  # fmt: skip


def reachable() -> list[str]:
    """Return the commands that let another user reach Python and the workspace in folders that only root may enter."""
    needed = [Path(sys.base_prefix), *ROOT.iterdir()]
    closed = {parent for path in needed for parent in path.parents if not parent.stat().st_mode & 0o001}
    tops = [top for top in closed if not closed & set(top.parents)]
    commands = []
    for top in tops:
        commands.append("shadow=$(mktemp -d); chmod 755 $shadow")
        for path in (path for path in needed if top in path.parents):
            place = f"$shadow/{path.relative_to(top)}"
            make = f"mkdir -p {place}" if path.is_dir() else f"mkdir -p {Path(place).parent}; touch {place}"
            commands.append(f"{make}; mount --rbind {shlex.quote(str(path))} {place}")
        commands.append(f"mount --rbind $shadow {top}")
    return commands
