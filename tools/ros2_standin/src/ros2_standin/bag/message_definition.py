"""Message definitions and type hashes, from the files that the message packages install."""

from __future__ import annotations

import json
import re
from pathlib import Path

from ament_index_python.packages import PackageNotFoundError, get_package_share_directory

SEPARATOR = "=" * 80
FIELD_TYPE = re.compile(r"^\s*([A-Za-z][A-Za-z0-9_/]*)(?:<=\d+)?(?:\[[^\]]*\])?\s+[A-Za-z]")
INTEGERS = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
BUILT_IN = frozenset({"bool", "byte", "char", "string", "wstring", "float32", "float64", *INTEGERS})


def message_definition(name: str) -> tuple[str, str]:
    """Return encoding and text of a message such as sensor_msgs/msg/JointState, its parts after it.

    Both are empty when the package does not install its definition.
    """
    try:
        return "ros2msg", _with_parts(name)
    except OSError:
        return "", ""


def type_hash(name: str) -> str:
    """Return RIHS01_... of the message, or an empty text when the package does not install it."""
    try:
        descriptions = json.loads(_installed(name, ".json").read_text(encoding="utf-8"))
    except OSError:
        return ""
    hashes = {entry["type_name"]: entry["hash_string"] for entry in descriptions["type_hashes"]}
    return hashes.get(name, "")


def _with_parts(name: str) -> str:
    texts = {name: _installed(name, ".msg").read_text(encoding="utf-8")}
    waiting = [name]
    while waiting:
        whole = waiting.pop(0)
        for part in _parts(whole, texts[whole]):
            if part not in texts:
                texts[part] = _installed(part, ".msg").read_text(encoding="utf-8")
                waiting.append(part)
    first, *others = texts
    sections = [texts[first], *(f"MSG: {part.replace('/msg/', '/')}\n{texts[part]}" for part in others)]
    return f"{SEPARATOR}\n".join(section if section.endswith("\n") else f"{section}\n" for section in sections)


def _parts(name: str, text: str) -> list[str]:
    """Return the messages that are fields of the message `name`."""
    package = name.split("/")[0]
    found = []
    for line in text.splitlines():
        match = FIELD_TYPE.match(line.split("#")[0])
        if match and match[1] not in BUILT_IN:
            owner, _, part = match[1].rpartition("/")
            found.append(f"{owner.split('/')[0] or package}/msg/{part}")
    return found


def _installed(name: str, suffix: str) -> Path:
    package, kind, message = name.split("/")
    try:
        share = get_package_share_directory(package)
    except PackageNotFoundError as error:
        raise FileNotFoundError(f"package '{package}' is not installed") from error
    return Path(share) / kind / f"{message}{suffix}"
