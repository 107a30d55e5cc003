"""The result of a comparison: a table with how it came about, as text, Markdown, JSON and figure."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fcnet_core.files import write_whole

LIBRARIES = ("numpy", "numba", "onnxruntime", "torch")


def machine() -> dict[str, str]:
    """What the figures depend on: processor, Python, libraries."""
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
class Report:
    """title: what was measured; columns: of the table; rows: a cell for each column, by label; how: in a sentence."""

    title: str
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[str, ...]]
    how: str
    command: str = field(default_factory=lambda: " ".join(["fcnet", *sys.argv[1:]]))
    machine: dict[str, str] = field(default_factory=machine)

    def text(self) -> str:
        """For a terminal."""
        table = [("", *self.columns), *((label, *cells) for label, cells in self.rows.items())]
        first, *others = (max(map(len, column)) for column in zip(*table, strict=True))
        lines = [
            "  ".join([label.ljust(first), *(cell.rjust(width) for cell, width in zip(cells, others, strict=True))])
            for label, *cells in table
        ]
        return "\n".join([self.title, *lines, self.how])

    def markdown(self) -> str:
        """For docs/."""
        table = [("", *self.columns), ("---",) * (len(self.columns) + 1)]
        table += [(label, *cells) for label, cells in self.rows.items()]
        lines = [f"| {' | '.join(cells)} |" for cells in table]
        facts = ", ".join(f"{name} {value}" for name, value in self.machine.items())
        return "\n".join([f"## {self.title}", "", f"    {self.command}", "", *lines, "", f"{self.how}; {facts}.", ""])

    def write_json(self, path: Path) -> None:
        """Write everything."""
        write_whole(path, json.dumps(asdict(self), indent=1).encode())


def mean_and_range(values: Sequence[float]) -> str:
    """A cell: the mean, and the lowest and the highest of several values."""
    if not values:
        return "-"
    mean = f"{sum(values) / len(values):.2f}"
    return mean if len(values) == 1 else f"{mean} ({min(values):.2f} to {max(values):.2f})"


def draw_lines(path: Path, x: str, y: str, values: Sequence[float], lines: dict[str, list[list[float]]]) -> None:
    """Write a figure with logarithmic axes. lines: low, middle and high y at every value of x, by label "SIDE, FORM":
    sides differ in colour, forms in dashes.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    sides, forms = (list(dict.fromkeys(label.split(", ")[part] for label in lines)) for part in (0, 1))
    for label, (low, middle, high) in lines.items():
        side, form = label.split(", ")
        colour, dashes = f"C{sides.index(side)}", ("--", "-", ":", "-.")[forms.index(form)]
        axes.plot(values, middle, dashes, marker="o", color=colour, label=label)
        axes.fill_between(values, low, high, alpha=0.2, color=colour, linewidth=0)
    axes.set(xlabel=x, ylabel=y, xscale="log", yscale="log")
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis="x", which="minor", length=0)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper")
    figure.savefig(path, dpi=120)
