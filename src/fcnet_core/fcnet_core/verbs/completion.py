"""fcnet completion: a shell script that completes verbs, options and file names."""

from __future__ import annotations

import argparse
from pathlib import Path

import shtab

from fcnet_core.cli import program

SUMMARY = "print a script for shell completion of verbs and options"
EPILOG = """
Repeat this after an update of fcnet.

examples:
  fcnet completion bash >~/.local/share/bash-completion/completions/fcnet
  fcnet completion zsh >~/.zfunc/_fcnet        # with ~/.zfunc in $fpath before compinit
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("shell", choices=shtab.SUPPORTED_SHELLS, help="the shell")


def run(args: argparse.Namespace) -> int:
    """Print the script; return 0."""
    parser = program()
    _complete_files(parser)
    print(shtab.complete(parser, args.shell))
    return 0


def _complete_files(parser: argparse.ArgumentParser) -> None:
    """Complete every argument that is a path as a file name."""
    for action in parser._actions:  # argparse has no public access to them
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                _complete_files(inner)
        elif action.type is Path:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
