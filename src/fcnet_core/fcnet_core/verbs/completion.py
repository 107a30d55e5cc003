"""fcnet completion: a script by which a shell completes verbs, options and file names."""

from __future__ import annotations

import argparse
from pathlib import Path

import shtab

from fcnet_core.cli import program

SUMMARY = "print the script by which a shell completes fcnet's verbs and options"
EPILOG = """
The script is complete in itself: with a new version of fcnet, or with another package that brings verbs, make it again.

examples:
  fcnet completion bash >~/.local/share/bash-completion/completions/fcnet
  fcnet completion zsh >~/.zfunc/_fcnet        # with ~/.zfunc in $fpath before compinit
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("shell", choices=shtab.SUPPORTED_SHELLS, help="whose script")


def run(args: argparse.Namespace) -> int:
    """Print the script; 0 when it is printed."""
    parser = program()
    _complete_files(parser)
    print(shtab.complete(parser, args.shell))
    return 0


def _complete_files(parser: argparse.ArgumentParser) -> None:
    """Let every argument that is a path be completed as one."""
    for action in parser._actions:  # argparse has no other way to them
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                _complete_files(inner)
        elif action.type is Path:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
