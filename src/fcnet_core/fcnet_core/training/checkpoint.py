"""Checkpoints: everything that a run needs to continue as if it had never stopped."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import torch

from fcnet_core.atomic_file import write_whole

FORMAT_VERSION = 1


class CheckpointError(ValueError):
    """A checkpoint cannot be used; the message says what to do."""


def save_checkpoint(path: Path, content: dict[str, Any]) -> None:
    """Write `content` (tensors and plain values) to `path`, whole or not at all."""
    buffer = io.BytesIO()
    torch.save({"format_version": FORMAT_VERSION, **content}, buffer)
    try:
        write_whole(path, buffer.getvalue())
    except OSError as error:
        raise CheckpointError(
            f"checkpoint {path} could not be written ({error}); make room, then continue with --resume"
        ) from error


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint without running any code it may hold; CheckpointError if there is none or it is damaged."""
    if not path.is_file():
        raise CheckpointError(
            f"there is no checkpoint {path} to resume; leave out --resume to start from the beginning"
        )
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
        version = content.pop("format_version")
    except (OSError, RuntimeError, EOFError, KeyError, AttributeError, pickle.UnpicklingError) as error:
        raise CheckpointError(
            f"checkpoint {path} is damaged ({type(error).__name__}); delete it and start again"
        ) from error
    if version != FORMAT_VERSION:
        raise CheckpointError(
            f"checkpoint {path} has format {version}, expected {FORMAT_VERSION}; start again without it"
        )
    return content
