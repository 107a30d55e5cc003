"""A rosbag2 bag: a folder with metadata.yaml and its files, a folder of a killed recording, or one file."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from backports import zstd

from fcnet_replay.bags.mcap_file import McapFile
from fcnet_replay.bags.message_batch import BagError, DamagedBagError, MessageBatch, batch_of
from fcnet_replay.bags.sqlite_file import SqliteFile

# Reads YAML that came with a bag: nothing in it is made an object or a number, and no depth of it ends the program.

def yaml_texts(content: bytes | str) -> Any:
    """The document as mappings, lists and texts. Raises yaml.YAMLError, ValueError, TypeError or RecursionError.

    libyaml's parser is ten times as fast as Python's, but its composer breaks the stack where nesting is deep.
    """
    events = (
        event
        for event in yaml.parse(content, yaml.CBaseLoader)
        if isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent)
    )
    return _value(next(events, None), events, {})


def _value(event: yaml.Event | None, events: Iterator[yaml.Event], anchors: dict[str, Any]) -> Any:
    value: Any
    if isinstance(event, yaml.AliasEvent):
        if event.anchor not in anchors:
            raise ValueError(f"*{event.anchor} stands for nothing")
        return anchors[event.anchor]
    if isinstance(event, yaml.ScalarEvent):
        value = event.value
    elif isinstance(event, yaml.SequenceStartEvent):
        value = _values(events, anchors)
    elif isinstance(event, yaml.MappingStartEvent):
        entries = _values(events, anchors)
        value = dict(zip(entries[::2], entries[1::2], strict=True))
    else:
        raise ValueError("it is empty")
    if event.anchor is not None:
        anchors[event.anchor] = value
    return value


def _values(events: Iterator[yaml.Event], anchors: dict[str, Any]) -> list[Any]:
    """Everything up to the end of a collection."""
    values = []
    while not isinstance(event := next(events), yaml.CollectionEndEvent):
        values.append(_value(event, events, anchors))
    return values


READERS: dict[str, type[McapFile] | type[SqliteFile]] = {".mcap": McapFile, ".db3": SqliteFile}
LARGEST_METADATA = 512 * 2**10  # [bytes] of metadata.yaml; a bag of 12 topics has ten thousand
LARGEST_MESSAGE = 16 * 2**20  # [bytes] of one compressed message, unpacked
LARGEST_FILE = 8 * 2**30  # [bytes] of one compressed file, unpacked
BLOCK = 2**20  # [bytes]
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError, yaml.YAMLError)  # metadata


@dataclass
class Bag:
    """One recording. While `batches` runs, `problems` gathers what could not be read, `seen` every topic of the bag
    and its type, and `definitions` encoding and text of the types that it defines.

    path: what the user gave; files: in the order of recording; custom: the recorder's own entries, custom_data in
    metadata.yaml or, where that is lost, in the files.
    """

    path: Path
    files: tuple[Path, ...]
    custom: dict[str, str]
    compressed_messages: bool
    problems: list[BagError] = field(default_factory=list)
    seen: dict[str, str] = field(default_factory=dict)
    definitions: dict[str, tuple[str, str]] = field(default_factory=dict)

    def batches(self, topics: frozenset[str] | None = None) -> Iterator[MessageBatch]:
        """Every message of these topics (None: all), file after file. Raises BagError when not one file is good."""
        good = 0
        for path in self.files:
            try:
                with tempfile.TemporaryDirectory(prefix="fcnet-bag-") as folder:
                    plain = _unpacked(path, Path(folder)) if path.suffix == ".zstd" else path
                    yield from self._read(plain, topics, path)
                good += 1
            except BagError as error:
                self.problems.append(error)
        if not good:
            raise self.problems[-1]

    def _read(self, path: Path, topics: frozenset[str] | None, name: Path) -> Iterator[MessageBatch]:
        file = READERS[path.suffix](path, topics, name)
        file.definitions = self.definitions
        for batch in file.batches():
            yield self._unpack(batch) if self.compressed_messages else batch
        self.definitions.update(file.definitions)
        self.problems.extend(file.problems)
        self.seen.update(file.seen)

    def _unpack(self, batch: MessageBatch) -> MessageBatch:
        messages, received, lost = [], [], 0
        for message, time in zip(batch.messages(), batch.received.tolist(), strict=True):
            try:
                messages.append(zstd.ZstdDecompressor().decompress(message, max_length=LARGEST_MESSAGE))
                received.append(time)
            except zstd.ZstdError:
                lost += 1
        if lost:
            what = f"{lost} messages of {batch.topic} cannot be decompressed and are left out"
            self.problems.append(DamagedBagError(self.path, None, what))
        return batch_of(batch.topic, batch.kind, received, messages)


def open_bag(path: str | Path) -> Bag:
    """The bag at `path`. Raises BagError with one sentence when there is none."""
    place = Path(path)
    if place.is_file() and _is_bag_file(place):
        return Bag(place, (place,), *_told_by((place,)))
    if not place.is_dir():
        raise BagError(f"there is no bag at {place}; give the folder that was recorded, or an .mcap or .db3 file")
    metadata = place / "metadata.yaml"
    return _described(place, metadata) if metadata.is_file() else _undescribed(place, "it has no metadata.yaml")


def _described(folder: Path, metadata: Path) -> Bag:
    try:
        facts = _facts(metadata)
        files = tuple(_inside(folder, name) for name in facts["relative_file_paths"])
        custom, by_message = _told(facts)
    except (OSError, *UNREADABLE) as error:
        return _undescribed(folder, f"its metadata.yaml cannot be read ({_first_line(error)})")
    missing = [file for file in files if not file.is_file()]
    if missing or not files:
        return _undescribed(folder, f"{missing[0].name} is missing" if missing else "its metadata.yaml names no file")
    return Bag(folder, files, custom, by_message)


def _facts(metadata: Path) -> dict[str, Any]:
    """What metadata.yaml says, all of it as texts."""
    with metadata.open("rb") as file:
        text = file.read(LARGEST_METADATA + 1)
    if len(text) > LARGEST_METADATA:
        raise ValueError(f"it is larger than {LARGEST_METADATA} bytes")
    facts: dict[str, Any] = yaml_texts(text)["rosbag2_bagfile_information"]
    return facts


def _words(entries: Any) -> dict[str, str]:
    """The entries that are texts; others could be meant to fill the memory when they are written out."""
    if not isinstance(entries, dict):
        return {}
    return {key: value for key, value in entries.items() if isinstance(key, str) and isinstance(value, str)}


def _undescribed(folder: Path, why: str) -> Bag:
    """A recording that was killed has its files but no description of them."""
    files = tuple(sorted(file for file in folder.iterdir() if _is_bag_file(file) and file.is_file()))
    if not files:
        raise BagError(f"{folder} holds no bag: {why}, and there is no .mcap or .db3 file in it")
    problem = DamagedBagError(folder / "metadata.yaml", 0, f"{why}; all {len(files)} bag files of the folder are read")
    return Bag(folder, files, *_told_by(files), problems=[problem])


def _told_by(files: tuple[Path, ...]) -> tuple[dict[str, str], bool]:
    """As _told, by what the files say themselves: rosbag2 writes it into them too, the last is the newest."""
    custom, by_message = {}, False
    for file in files:
        for text in READERS[file.suffix](file).metadata() if file.suffix in READERS else ():
            with contextlib.suppress(*UNREADABLE):
                words, by_message = _told(yaml_texts(text))
                custom.update(words)
    return custom, by_message


def _told(facts: dict[str, Any]) -> tuple[dict[str, str], bool]:
    """The recorder's own entries, and whether each message is compressed by itself."""
    return _words(facts.get("custom_data")), str(facts.get("compression_mode") or "").lower() == "message"


def _inside(folder: Path, name: Any) -> Path:
    """A file named by metadata.yaml, which must not lead out of the bag."""
    file = folder / Path(str(name)).name
    if not _is_bag_file(file):
        raise ValueError("it names a file that is no bag file")
    return file


def _is_bag_file(path: Path) -> bool:
    suffix = Path(path.stem).suffix if path.suffix == ".zstd" else path.suffix
    return suffix in READERS


def _unpacked(path: Path, folder: Path) -> Path:
    plain, size = folder / path.stem, 0
    try:
        with zstd.open(path, "rb") as packed, plain.open("wb") as file:
            while block := packed.read(BLOCK):
                size += len(block)
                if size > LARGEST_FILE:
                    raise BagError(f"{path} holds more than {LARGEST_FILE} bytes; decompress it, then try again")
                file.write(block)
    except (zstd.ZstdError, EOFError) as error:
        if not size:
            raise DamagedBagError(path, 0, f"it cannot be decompressed ({error})") from error
    return plain


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
