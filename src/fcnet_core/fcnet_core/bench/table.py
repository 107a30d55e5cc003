"""The result of a comparison: a table with its conditions, machine and command."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

LIBRARIES = ("numpy", "numba", "onnxruntime", "torch")


def machine() -> dict[str, str]:
    """Return the processor and the versions of Python and of LIBRARIES."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    facts = {"processor": f"{names[0] if names else platform.processor()}, {len(names)} cores"}
    facts["Python"] = platform.python_version()
    for library in LIBRARIES:
        try:
            facts[library] = version(library)
        except PackageNotFoundError:
            continue
    return facts


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
        table = [("", *self.columns), *((label, *cells) for label, cells in self.rows.items())]
        first, *others = (max(map(len, column)) for column in zip(*table, strict=True))
        lines = [
            "  ".join([label.ljust(first), *(cell.rjust(width) for cell, width in zip(cells, others, strict=True))])
            for label, *cells in table
        ]
        return "\n".join([self.title, *lines, self.how])
