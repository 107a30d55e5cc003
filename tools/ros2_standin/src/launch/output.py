"""What launching prints: its own messages and the prefixed lines of its processes."""

from __future__ import annotations

import sys

LEVELS = ("INFO", "WARNING", "ERROR")


def report(level: str, source: str, message: str) -> None:
    """Print one message of launching itself, as `[INFO] [source]: message`."""
    assert level in LEVELS
    print(f"[{level}] [{source}]: {message}", file=sys.stderr if level == "ERROR" else sys.stdout, flush=True)


def print_line(process: str, line: str) -> None:
    """Print one line of a process, as `[process] line`."""
    print(f"[{process}] {line}", flush=True)
