"""Parts of several benchmarks: a robot that walks in front of a board, recovery, curves, and tables in Markdown.

Importing this module makes ros_harness, the harness of the tests, importable.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from board_process import BoardProcess

sys.path.append(str(Path(__file__).resolve().parents[2] / "src/fcnet_ros/test/shared"))
from ros_harness import Client, Process

CURVE = 5.0  # [s] between two changes of direction
START_TIMEOUT = 180.0  # [s] until programs are ready; a first start compiles, and the computer may be busy


@contextmanager
def walking(robot: str, board: BoardProcess, domain: int, client: Client, *arguments: str) -> Iterator[Process]:
    """Launch bridge and controller in front of a board; yield the launch when the controller walks."""
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


def resume(client: Client, robot: str, timeout: float) -> None:
    """Let a robot that was damped walk again: reset bridge and controller as an operator would, each step within
    `timeout` [s]; AssertionError if it does not.
    """
    if client.fault:
        client.call(f"{robot}_bridge/reset")
    client.until(lambda: client.call("controller/reset").success or client.mode != "fault", "a reset", timeout)
    client.until_mode("passive", timeout)
    walk(client, timeout)


def drive_curves(client: Client, duration: float, yaw_rate: float = 0.4) -> None:
    """Walk curves at 0.5 m/s and `yaw_rate` [rad/s] to either side in turn for `duration` [s]."""
    end, side = time.monotonic() + duration, 1
    while (left := end - time.monotonic()) > 0.0:
        client.drive(min(CURVE, left), vx=0.5, yaw_rate=yaw_rate * side)
        side = -side


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    head, *lines = (f"| {' | '.join(row)} |" for row in (columns, *rows))
    return "\n".join([head, "|---" * len(columns) + "|", *lines])
