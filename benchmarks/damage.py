"""Ways to damage a bag, the same for the same seed: cuts, flipped bits, lost and doubled pieces, hostile lengths."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

Random = np.random.Generator
LENGTHS = (0, 1, 255, 2**16, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1)
RECORD = b"serialized_metadata"  # in an mcap file
WORDS = (
    b"!!python/object/apply:os.system ['false']",
    b"*a",
    b"&a [*a, *a]",
    b"{{{{",
    b"\0",
    b"- ",
    b"9" * 400,
    b"null",
)


def damaged_copy(bag: Path, folder: Path, seed: int) -> str:
    """Copy the bag to `folder` with one kind of damage, and return what was done."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(bag, folder)
    random = np.random.default_rng(seed)
    files = sorted(path for path in folder.iterdir() if path.name != "metadata.yaml")
    if random.random() < 0.15 and (folder / "metadata.yaml").exists():
        return _damage_metadata(folder / "metadata.yaml", random)
    file = files[int(random.integers(len(files)))]
    content = bytearray(file.read_bytes())
    damages = [_cut, _flip, _flip, _overwrite, _drop, _double, _lengths, _empty]
    if RECORD in content and not (folder / "metadata.yaml").exists():
        damages += [_record] * len(damages)
    damage = damages[int(random.integers(len(damages)))]
    file.write_bytes(damage(content, random))
    return f"{damage.__name__[1:]} in {file.name}"


def _damage_metadata(file: Path, random: Random) -> str:
    text = bytearray(file.read_bytes())
    at = int(random.integers(len(text)))
    text[at : at + int(random.integers(40))] = WORDS[int(random.integers(len(WORDS)))]
    file.write_bytes(text)
    return "metadata.yaml"


def _cut(content: bytearray, random: Random) -> bytearray:
    return content[: int(random.integers(len(content)))]


def _flip(content: bytearray, random: Random) -> bytearray:
    """Anywhere, or near the beginning, where a file says how it is built."""
    end = len(content) if random.random() < 0.7 else min(len(content), 4000)
    for at in random.integers(end, size=int(random.integers(1, 20))).tolist():
        content[at] ^= 1 << int(random.integers(8))
    return content


def _overwrite(content: bytearray, random: Random) -> bytearray:
    at, size = int(random.integers(len(content))), int(random.integers(1, 3000))
    content[at : at + size] = random.bytes(len(content[at : at + size]))
    return content


def _drop(content: bytearray, random: Random) -> bytearray:
    at = int(random.integers(len(content)))
    del content[at : at + int(random.integers(1, 5000))]
    return content


def _double(content: bytearray, random: Random) -> bytearray:
    at = int(random.integers(len(content)))
    return content[:at] + content[max(0, at - int(random.integers(1, 5000))) :]


def _lengths(content: bytearray, random: Random) -> bytearray:
    """Numbers that a reader might trust."""
    end = len(content) if random.random() < 0.5 else min(len(content), 2000)
    for at in random.integers(end, size=5).tolist():
        number = LENGTHS[int(random.integers(len(LENGTHS)))].to_bytes(8, "little")
        content[at : at + 8] = number[: len(content[at : at + 8])]
    return content


def _record(content: bytearray, random: Random) -> bytearray:
    """The metadata that the file itself holds, or the lengths before it."""
    at = content.index(RECORD) - 40 + int(random.integers(600))
    word = (
        WORDS[int(random.integers(len(WORDS)))] if random.random() < 0.5 else random.bytes(int(random.integers(1, 9)))
    )
    content[at : at + (len(word) if random.random() < 0.7 else 3)] = word
    return content


def _empty(_content: bytearray, _random: Random) -> bytearray:
    return bytearray()
