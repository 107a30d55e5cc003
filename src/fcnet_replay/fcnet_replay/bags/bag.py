"""A bag: a folder with metadata.yaml and its files, the folder of a killed recording, or one file."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import yaml
import zstandard

from fcnet_core import counted
from fcnet_core.errors import ReplayError
from fcnet_core.files import parse_yaml, read_file
from fcnet_replay.bags.contents import Contents, Message, MessageBatch, Problem, batches_of, damage, unpacking_failed
from fcnet_replay.bags.mcap_file import mcap_metadata, read_mcap, unpacked_zstd
from fcnet_replay.bags.other_files import ZSTD, ZSTD_SUFFIXES, is_bag_file, what_it_is
from fcnet_replay.bags.sqlite_file import read_sqlite, sqlite_metadata
from fcnet_replay.recording_notes import read_notes

_PART = re.compile(r"(_\d+)?(?=\.(mcap|db3))")  # of a bag in the name of its file
MANY = 12  # files in an error
READERS = {".mcap": read_mcap, ".db3": read_sqlite}
METADATA = {".mcap": mcap_metadata, ".db3": sqlite_metadata}
LARGEST_METADATA = 512 * 2**10  # [bytes] of metadata.yaml; a bag of 12 topics has ten thousand
LARGEST_MESSAGE = 16 * 2**20  # [bytes] of one compressed message, unpacked
LARGEST_FILE = 8 * 2**30  # [bytes] of one compressed file, unpacked
UNREADABLE = (OSError, ValueError, KeyError, TypeError, RecursionError, yaml.YAMLError)  # of damaged metadata


class Bag:
    """One recording; `batches` fills `contents`.

    path: as given by the user; files: in the order of recording; custom: the recorder's entries (custom_data in
    metadata.yaml, or in the files if that is lost); notes: the entries of the suite.
    """

    def __init__(self, path: Path, files: tuple[Path, ...], metadata: _Metadata) -> None:
        self.path = path
        self.files = files
        self.custom = metadata.custom
        self.contents = Contents()
        self.notes = read_notes(self.custom)
        self._compressed_messages = metadata.compression_mode.lower() == "message"

    def batches(self, topics: frozenset[str] | None = None) -> Iterator[MessageBatch]:
        """Yield the messages of these topics (None: all), file by file. Raises ReplayError if no file can be read."""
        good = end = 0
        for path in self.files:
            begin = end
            try:
                facts = path.stat()  # a file under /proc has no size, and reading it may block
                if not path.is_file() or not facts.st_size:
                    raise ReplayError(f"{damage(path, 0, 'it is empty or no ordinary file')}")
                with tempfile.TemporaryDirectory(prefix="fcnet-bag-") as folder:
                    plain = _unpacked(path, Path(folder)) if path.suffix in ZSTD_SUFFIXES else path
                    if other := what_it_is(plain):
                        raise ReplayError(other)
                    reader = READERS.get(plain.suffix)
                    if reader is None:  # imported late: the import would add a fifth to every other replay
                        from fcnet_replay.bags.ros1_file import read_ros1 as reader
                    for batch in reader(plain, path, topics, self.contents):
                        batch = replace(batch, place=begin + batch.place)
                        end = max(end, int(batch.place.max()) + 1)
                        packed = self._compressed_messages or batch.content[: len(ZSTD)].tobytes() == ZSTD
                        yield from batches_of(self._decompressed(batch)) if packed else (batch,)
                good += 1
                if (now := path.stat()).st_size != facts.st_size or now.st_mtime_ns != facts.st_mtime_ns:
                    what = f"{path} changed while it was read: read it again when the recording has ended"
                    self.contents.problems.append(Problem("damaged", what))
            except ReplayError as error:
                self.contents.problems.append(Problem("damaged", str(error)))
        if not good:
            raise ReplayError(f"{self.contents.problems[-1]}")

    def _decompressed(self, batch: MessageBatch) -> Iterator[Message]:
        lost = 0
        for received, place, message in zip(
            batch.received.tolist(), batch.place.tolist(), batch.messages(), strict=True
        ):
            try:
                yield (batch.topic, batch.kind), received, place, unpacked_zstd(message, LARGEST_MESSAGE)
            except zstandard.ZstdError:
                lost += 1
        if lost:
            what = f"{counted(lost, 'message')} of {batch.topic} left out, which cannot be decompressed"
            self.contents.problems.append(damage(self.path, None, what))


def open_bag(path: str | Path) -> Bag:
    """Open the bag at `path`: a file, a folder, or the folder of a killed recording, which has files without a
    description. Raises ReplayError if there is none.
    """
    place = given.parent if (given := Path(path)).name == "metadata.yaml" else given
    if place.is_file():
        if not is_bag_file(place) and (other := what_it_is(place)):
            raise ReplayError(other)
        return Bag(place, (place,), _metadata_of_files((place,)))
    if not place.is_dir():
        raise ReplayError(f"there is no bag at {place}; give its folder, or an .mcap, .db3 or .bag file")
    try:
        return _described(place)
    except UNREADABLE as error:
        why = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    found = sorted(file for file in place.iterdir() if is_bag_file(file) and file.is_file())
    files = tuple(sorted({file.resolve(): file for file in found}.values(), key=_numbered))  # links once
    if not files:
        raise ReplayError(f"{place} holds no bag: {why}, and it has no .mcap, .db3 or .bag file{_others(place)}")
    if len(bags := {_PART.sub("", file.name, 1): file.name for file in files if ".bag" not in file.suffixes}) > 1:
        raise ReplayError(f"{place} holds the files of several bags ({', '.join(bags.values())}): {why}; name one")
    bag = Bag(place, files, _metadata_of_files(files))
    what = f"{place} is read by its files ({', '.join(file.name for file in files[:MANY])}): {why}"
    bag.contents.problems.append(Problem("no_metadata", what))
    return bag


def _others(folder: Path) -> str:
    """Return the bags in a folder's folders, or what a file of it is; empty without either."""
    inside = sorted(folder.iterdir())
    bags = [each.name for each in inside if each.is_dir() and any(is_bag_file(file) for file in each.iterdir())]
    found = [f"it holds the bags {', '.join(bags[:MANY])}: name one of them"] if bags else []
    found += [what_it_is(file) for file in inside if file.is_file() and file.suffix != ".yaml"]
    return "".join(f"; {what}" for what in [*filter(None, found)][:1])


def _described(folder: Path) -> Bag:
    """Return the bag of metadata.yaml. Raises one of UNREADABLE."""
    if not (folder / "metadata.yaml").is_file():
        raise ValueError("it has no metadata.yaml, which a finished recording has")
    try:
        text = read_file(folder / "metadata.yaml", "the file", LARGEST_METADATA)
        metadata = _metadata(text, "rosbag2_bagfile_information")
    except UNREADABLE as error:
        raise ValueError(f"its metadata.yaml is damaged ({' '.join(str(error).split())})") from error
    files = tuple(folder / Path(name).name for name in metadata.relative_file_paths)  # never out of the folder
    if not files or not all(map(is_bag_file, files)):
        raise ValueError("its metadata.yaml names a file that is no bag file" if files else "it names no file")
    if missing := [file.name for file in files if not file.is_file()]:
        raise ValueError(f"{missing[0]} is missing")
    if len({file.resolve() for file in files}) < len(files):
        raise ValueError("its metadata.yaml names a file more than once")
    if len({_numbered(file)[::2] for file in files}) == 1:  # rosbag2 counts them; after other names, its order counts
        files = tuple(sorted(files, key=_numbered))
    return Bag(folder, files, metadata)


@dataclass(frozen=True)
class _Metadata:
    """The used part of rosbag2's metadata. custom_data: the recorder's entries, or a text that stands for none."""

    relative_file_paths: tuple[str, ...] = ()
    compression_mode: str = ""
    custom_data: dict[str, str] | str = field(default_factory=dict)

    @property
    def custom(self) -> dict[str, str]:
        """The recorder's entries."""
        return self.custom_data if isinstance(self.custom_data, dict) else {}


def _metadata(content: bytes | str, entry: str = "") -> _Metadata:
    """Read metadata from a YAML document or from one entry of it, in which every scalar stays text."""
    document = parse_yaml(content, yaml.CBaseLoader)
    return msgspec.convert(document[entry] if entry else document, _Metadata)


def _metadata_of_files(files: tuple[Path, ...]) -> _Metadata:
    """Read the metadata that rosbag2 also writes into the files; the last is the newest."""
    custom, compression = dict[str, str](), ""
    for file in files:
        for text in METADATA[file.suffix](file) if file.suffix in METADATA and file.stat().st_size else ():
            with suppress(*UNREADABLE):
                metadata = _metadata(text)
                custom.update(metadata.custom)
                compression = metadata.compression_mode
    return _Metadata(compression_mode=compression, custom_data=custom)


def _numbered(path: Path) -> tuple[str | int, ...]:
    """Return the name as its texts and, at every second place, its numbers: x_10 comes after x_9."""
    return tuple(int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", path.name))


def _unpacked(path: Path, folder: Path) -> Path:
    """Return a decompressed copy of the file, up to damage."""
    plain, size = folder / path.stem, 0
    try:
        with zstandard.open(path, "rb") as packed, plain.open("wb") as file:
            while block := packed.read(2**20):
                size += len(block)
                if size > LARGEST_FILE:
                    raise ReplayError(f"{path} holds more than {LARGEST_FILE} bytes; decompress it, then try again")
                file.write(block)
    except zstandard.ZstdError as error:
        if not size:
            raise ReplayError(f"{damage(path, 0, f'it cannot be decompressed ({error})')}") from error
    except OSError as error:
        raise ReplayError(unpacking_failed(path, folder, error)) from error
    return plain
