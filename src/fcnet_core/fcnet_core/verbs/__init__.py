"""Subcommands of `fcnet`, one per file, with SUMMARY, EPILOG, add_arguments(parser) and run(args).

Shared arguments are declared here: the model is positional, `-o/--out` names the output, `--robot` the robot, and
`--json FILE` writes the results (`-`: to standard output).
"""

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fcnet_core.files import check_writable, write_whole

STDOUT = "-"


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the positional argument MODEL."""
    source = "a policy file (.safetensors), a training run's folder, a name of `fcnet list models`, or hf://owner/name"
    parser.add_argument("model", metavar="MODEL", help=source)


def add_json(parser: argparse.ArgumentParser, content: str = "the results") -> None:
    """Add `--json FILE`; `content` completes its help text."""
    parser.add_argument("--json", metavar="FILE", help=f"write {content} as JSON to FILE; - prints to standard output")


def check_json(file: str | None) -> None:
    """Raise FcnetError if `write_json` could not write to `file`; call it before the work."""
    if file and file != STDOUT:
        check_writable(Path(file))


def write_json(content: Any, file: str | None) -> None:
    """Write `content` as JSON to the file that `--json` names; print it for `-`; do nothing for None."""
    if file is None:
        return
    text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    if file == STDOUT:
        print(text, end="", flush=True)
    else:
        write_whole(Path(file), text.encode())


def text_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a table as text: names left-aligned, values right-aligned."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in [heads, *rows]
    )


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a table as Markdown."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [heads, ["---"] * len(heads), *rows])
