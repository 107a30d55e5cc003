"""What all verbs share: how one is described, and its error."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class VerbError(Exception):
    """What the user asked for cannot be done; the text says why and what to do."""


@dataclass(frozen=True)
class Verb:
    """A verb such as "topic list"; `run` returns the exit code, `arguments` are made by `argument`."""

    name: str
    summary: str
    run: Callable[[argparse.Namespace], int]
    arguments: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = ()


def argument(*names: str, **options: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return an argument of a verb, with what ArgumentParser.add_argument takes."""
    return names, options


def positive(text: str) -> float:
    """Return the finite number above zero that an argument of the command line is."""
    value = float(text)
    if not 0.0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value
