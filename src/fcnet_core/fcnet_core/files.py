"""Settings files read strictly, and files written whole or not at all."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import yaml
from msgspec import Meta

from fcnet_core import FcnetError

SettingsT = TypeVar("SettingsT")
FINITE = sys.float_info.max
Positive = Annotated[float, Meta(gt=0, le=FINITE)]


class _UniqueKeyLoader(yaml.CSafeLoader):
    """Refuses an entry that is given twice, of which YAML takes the last without a word; reads 1e-9 as a number."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [self.construct_object(key) for key, _ in node.value]
        if twice := [str(name) for name in names if names.count(name) > 1]:
            raise ValueError(f"entry {twice[0]} is given twice, at line {node.start_mark.line + 1} and below")
        return super().construct_mapping(node, deep)


_UniqueKeyLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def read_settings(path: str | Path, kind: type[SettingsT], what: str) -> SettingsT:
    """Read the YAML file at `path` as a `kind`: a msgspec Struct, which validates types, ranges and unknown entries.

    A Struct refuses unknown entries with forbid_unknown_fields=True, and what types cannot say by a ValueError in its
    __post_init__. what: the file's name in the sentence of a FcnetError, such as "topic map".
    """
    try:
        content = yaml.load(Path(path).read_text(encoding="utf-8"), _UniqueKeyLoader)
        return msgspec.convert(content, kind)
    except OSError as error:
        raise FcnetError(f"{what} {path} cannot be read: {error.strerror}; give the path of one") from error
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise FcnetError(f"{what} {path} cannot be used: {reason}; compare it with the suite's config/") from error


def write_whole(path: Path, content: bytes) -> None:
    """Write `content` to `path` by way of a temporary file beside it: a reader sees the old file or the new one.

    Raises OSError when the disk refuses; no temporary file stays behind then, nor after Ctrl-C.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
