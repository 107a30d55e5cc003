"""The verbs of the `fcnet` program, one a file; each has SUMMARY, EPILOG, add_arguments(parser) and run(args).

Options that several verbs have are declared here, so that they look and work alike: the model is positional, `-o/--out`
names the output, `--robot` the robot, and `--json FILE` writes the results, to standard output if FILE is `-`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from fcnet_core.files import check_writable, write_whole

STDOUT = "-"


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the positional MODEL to a verb's parser."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="a policy file (.safetensors), a training run's folder, a name of `fcnet list models`, or hf://owner/name",
    )


def add_json(parser: argparse.ArgumentParser, content: str = "the results") -> None:
    """Add `--json FILE` to a verb's parser; `content` completes its help text."""
    parser.add_argument("--json", metavar="FILE", help=f"write {content} as JSON to FILE; - prints to standard output")


def check_json(file: str | None) -> None:
    """Raise FcnetError if `write_json` could not write to `file`, before work is spent on its content."""
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
