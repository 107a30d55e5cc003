"""What the folders of studies share: the settings with which one is continued, and files of results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from fcnet_core.errors import StudyError
from fcnet_core.files import write_whole


def begin(folder: Path, settings: Struct) -> None:
    """Write study.json. Raises StudyError when the folder holds that of a study with other settings."""
    path = folder / "study.json"
    if not path.exists():
        write_whole(path, msgspec.json.format(msgspec.json.encode(settings), indent=1))
        return
    found = read_json(path, type(settings))
    if other := [name for name in settings.__struct_fields__ if getattr(found, name) != getattr(settings, name)]:
        raise StudyError(
            f"{folder} holds a study with another {', '.join(other).replace('_', ' ')}; name another folder"
            " with --out, or delete that one"
        )


def read_json(path: Path, kind: Any) -> Any:
    """A result file. Raises StudyError when it is damaged."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except ValueError as error:
        raise StudyError(f"{path} is damaged ({error}); delete it, and the study does that job again") from error
