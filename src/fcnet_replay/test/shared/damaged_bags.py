"""Copies of a bag with damage that is the same for the same seed."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import numpy as np
from damage import DAMAGES, WORDS, below

RECORD = b"serialized_metadata"  # in an mcap file


def without_metadata(bag: Path, folder: Path) -> Path:
    """Copy a bag of one mcap file, without metadata.yaml and with the metadata at the start of the file, too."""
    shutil.copytree(bag, folder)
    (folder / "metadata.yaml").unlink()
    (file,) = folder.iterdir()
    content = file.read_bytes()
    at = content.index(RECORD) - 28  # name, lengths, and the record's head
    (length,) = struct.unpack_from("<Q", content, at + 1)
    header = 17 + struct.unpack_from("<Q", content, 9)[0]
    file.write_bytes(content[:header] + content[at : at + 9 + length] + content[header:])
    return folder


def damaged_copy(bag: Path, folder: Path, seed: int) -> str:
    """Copy the bag to `folder` with one kind of damage, the same for the same seed, and return what was done."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(bag, folder)
    random = np.random.default_rng(seed)
    files = sorted(path for path in folder.iterdir() if path.name != "metadata.yaml")
    file, kinds = files[below(random, len(files))], dict(DAMAGES)
    if random.random() < 0.15 and (folder / "metadata.yaml").exists():
        file, kinds = folder / "metadata.yaml", {"words": _words}
    content = bytearray(file.read_bytes())
    if RECORD in content and not (folder / "metadata.yaml").exists() and random.random() < 0.5:
        kinds = {"metadata": _metadata}
    kind = list(kinds)[below(random, len(kinds))]
    file.write_bytes(kinds[kind](content, random))
    return f"{kind} in {file.name}"


def _words(content: bytearray, random: np.random.Generator) -> bytearray:
    """What YAML takes for more than a text."""
    at = below(random, len(content))
    content[at : at + below(random, 40)] = WORDS[below(random, len(WORDS))]
    return content


def _metadata(content: bytearray, random: np.random.Generator) -> bytearray:
    """The metadata that an mcap file itself holds, or the lengths before it."""
    at = content.index(RECORD) - 40 + below(random, 600)
    words = (*WORDS, *(random.bytes(1 + below(random, 8)) for _ in WORDS))
    word = words[below(random, len(words))]
    content[at : at + (len(word) if random.random() < 0.7 else 3)] = word
    return content
