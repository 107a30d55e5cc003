"""Parts that several benchmarks share: a launched robot that walks in front of a board, and tables in Markdown."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from board_process import BoardProcess

sys.path.append(str(Path(__file__).resolve().parents[2] / "src/fcnet_ros/test/shared"))
from ros_harness import Client, Process

START_TIMEOUT = 90.0  # [s] until a robot walks; a first start compiles


@contextmanager
def walking(robot: str, board: BoardProcess, domain: int, client: Client, *arguments: str) -> Iterator[Process]:
    """Launch bridge and controller in front of a board; yield the launch once the controller walks."""
    command = [
        "ros2", "launch", "fcnet_controller", f"{robot}.launch.py", "backend:=unitree",
        "network.target:=127.0.0.1", f"network.port:={board.address[1]}", "network.local_port:=0", *arguments,
    ]  # fmt: skip
    with Process(command, domain, echo=sys.stderr) as launch:
        client.mode = ""
        client.until_mode("passive", START_TIMEOUT)
        walk(client)
        yield launch


def walk(client: Client, timeout: float = START_TIMEOUT) -> None:
    """Let a passive robot stand up and walk, each within `timeout` [s]; AssertionError if it does not."""
    for request, mode in (("stand_up", "standing"), ("walk", "walking")):
        client.until(lambda name=request: client.call(f"controller/{name}").success, request, timeout)  # type: ignore[misc]
        client.until_mode(mode, timeout)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    head, *lines = (f"| {' | '.join(row)} |" for row in (columns, *rows))
    return "\n".join([head, "|---" * len(columns) + "|", *lines])
