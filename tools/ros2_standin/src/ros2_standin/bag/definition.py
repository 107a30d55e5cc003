"""Message definitions and type hashes, from the files that the message packages install."""

from __future__ import annotations

import json
from pathlib import Path

from ament_index_python.packages import PackageNotFoundError, get_package_share_directory

SEPARATOR = "=" * 80


def message_definition(name: str) -> tuple[str, str]:
    """Return the text and the hash (RIHS01_...) of a message such as sensor_msgs/msg/JointState.

    The text holds the message's fields and, after it, those of every message in it. Both are empty when the package
    does not install its definition.
    """
    try:
        described = json.loads(_installed(name, ".json"))
        hashes = {entry["type_name"]: entry["hash_string"] for entry in described["type_hashes"]}
        parts = [part["type_name"] for part in described["type_description_msg"]["referenced_type_descriptions"]]
        sections = [_installed(name, ".msg")]
        sections += [f"MSG: {part.replace('/msg/', '/')}\n{_installed(part, '.msg')}" for part in parts]
    except OSError:
        return "", ""
    return f"{SEPARATOR}\n".join(f"{section.rstrip()}\n" for section in sections), hashes[name]


def _installed(name: str, suffix: str) -> str:
    package, kind, message = name.split("/")
    try:
        share = get_package_share_directory(package)
    except PackageNotFoundError as error:
        raise FileNotFoundError(f"package '{package}' is not installed") from error
    return (Path(share) / kind / f"{message}{suffix}").read_text(encoding="utf-8")
