"""The result of a comparison: a table with its conditions, machine and command."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

LIBRARIES = ("numpy", "numba", "onnxruntime", "torch")


def machine() -> dict[str, str]:
    """Return the processor and the versions of Python and of the LIBRARIES that are installed."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    facts = {"processor": f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"}
    facts["Python"] = platform.python_version()
    for library in LIBRARIES:
        with suppress(PackageNotFoundError):
            facts[library] = version(library)
    return facts


def text_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a table as text: names left-aligned, values right-aligned."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in [heads, *rows]
    )


@dataclass(frozen=True)
class ResultTable:
    """title: the measured quantity; rows: a cell for each column, by label; how: the conditions."""

    title: str
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[str, ...]]
    how: str
    command: str = field(default_factory=lambda: " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]))
    machine: dict[str, str] = field(default_factory=machine)

    def text(self) -> str:
        """Return the table for a terminal."""
        rows = [[label, *cells] for label, cells in self.rows.items()]
        return "\n".join([self.title, text_table(["", *self.columns], rows), self.how])
