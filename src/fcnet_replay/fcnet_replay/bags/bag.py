"""A bag: a folder with metadata.yaml and its files, the folder of a killed recording, or one file."""

import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote

import msgspec
import yaml
import zstandard

from fcnet_core import counted
from fcnet_core.errors import ReplayError
from fcnet_core.files import parse_yaml, read_file
from fcnet_replay.bags.contents import Contents, Message, MessageBatch, Problem, batches_of, damage, unpacking_failed
from fcnet_replay.bags.mcap_file import mcap_metadata, read_mcap, unpacked_zstd
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
BAGS = {".mcap": b"\x89MCAP0\r\n", ".db3": b"SQLite format 3\0", ".bag": b"#ROSBAG V2"}
ZSTD = b"\x28\xb5\x2f\xfd"  # starts what zstd packed, and no message
ZSTD_SUFFIXES = (".zstd", ".zst")
PACKED = {"gzip": b"\x1f\x8b", "bzip2": b"BZh", "xz": b"\xfd7zXZ\0", "lz4": b"\x04\x22\x4d\x18", "zstd": ZSTD}
ZIP, TAR = b"PK\x03\x04", b"ustar"
AT_TAR, HEAD = 257, 512  # [bytes] the place of TAR in an archive, and how many are read


class Bag:
    """One recording; `batches` fills `contents`.

    path: as given by the user; files: in the order of recording; notes: the recorder's (custom_data in metadata.yaml,
    or in the files if that is lost).
    """

    def __init__(self, path: Path, files: tuple[Path, ...], custom: Mapping[str, str]) -> None:
        self.path = path
        self.files = files
        self.contents = Contents()
        self.notes = read_notes(custom)

    def batches(self, topics: frozenset[str] | None = None) -> Iterator[MessageBatch]:
        """Yield the messages of these topics (None: all), file by file. Raises ReplayError if no file can be read."""
        good = end = 0
        for path in self.files:
            begin = end
            try:
                facts = path.stat()  # a file under /proc has no size, and reading it may block
                if not path.is_file() or not facts.st_size:
                    raise ReplayError(damage(path, 0, "it is empty or no ordinary file").sentence)
                with tempfile.TemporaryDirectory(prefix="fcnet-bag-") as folder:
                    plain = _unpacked(path, Path(folder)) if path.suffix in ZSTD_SUFFIXES else path
                    if other := _what_it_is(plain):
                        raise ReplayError(other)
                    if plain.suffix == ".bag":  # imported late: the import would add a fifth to every other replay
                        from fcnet_replay.bags.ros1_file import read_ros1 as reader
                    else:
                        reader = READERS[plain.suffix]
                    for batch in reader(plain, path, topics, self.contents):
                        batch = replace(batch, place=begin + batch.place)
                        end = max(end, int(batch.place.max()) + 1)
                        packed = batch.content[: len(ZSTD)].tobytes() == ZSTD
                        yield from batches_of(self._decompressed(batch)) if packed else iter((batch,))
                good += 1
                if (now := path.stat()).st_size != facts.st_size or now.st_mtime_ns != facts.st_mtime_ns:
                    what = f"{path} changed while it was read: read it again when the recording has ended"
                    self.contents.problems.append(Problem("damaged", what))
            except ReplayError as error:
                self.contents.problems.append(Problem("damaged", str(error)))
        if not good:
            raise ReplayError(self.contents.problems[-1].sentence)

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
        if not _is_bag_file(place) and (other := _what_it_is(place)):
            raise ReplayError(other)
        return Bag(place, (place,), _custom_data((place,)))
    if not place.is_dir():
        raise ReplayError(f"there is no bag at {place}; give its folder, or an .mcap, .db3 or .bag file")
    try:
        return _described(place)
    except UNREADABLE as error:
        why = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    found = sorted(file for file in place.iterdir() if _is_bag_file(file) and file.is_file())
    files = tuple(sorted({file.resolve(): file for file in found}.values(), key=_numbered))  # links once
    if not files:
        raise ReplayError(f"{place} holds no bag: {why}, and it has no .mcap, .db3 or .bag file{_others(place)}")
    if len(bags := {_PART.sub("", file.name, 1): file.name for file in files if ".bag" not in file.suffixes}) > 1:
        raise ReplayError(f"{place} holds the files of several bags ({', '.join(bags.values())}): {why}; name one")
    bag = Bag(place, files, _custom_data(files))
    what = f"{place} is read by its files ({', '.join(file.name for file in files[:MANY])}): {why}"
    bag.contents.problems.append(Problem("no_metadata", what))
    return bag


def _is_bag_file(path: Path) -> bool:
    """Return whether the name is that of a bag file, which zstd may have packed."""
    return (Path(path.stem).suffix if path.suffix in ZSTD_SUFFIXES else path.suffix) in BAGS


def _what_it_is(path: Path) -> str:
    """Return what the file is and how to make a bag of it; empty if it may be the bag that its name says.

    Special files under /proc have no size, and reading them may block.
    """
    if not path.stat().st_size:
        return ""
    with path.open("rb") as file:
        head = file.read(HEAD)
    for suffix, begin in BAGS.items():
        if head.startswith(begin) and path.suffix != suffix:
            return f"{path} is a bag file of the kind {suffix[1:]}: rename it to {path.name}{suffix}"
    packed, plain = quote(str(path)), quote(str(path.with_suffix("")))
    if path.suffix in (".rollout", ".npz", ".pt"):  # zip packs two of them
        play = f"ros2 launch fcnet_controller isaac_playback.launch.py recording:={packed}"
        return f"{path} is no bag but a recording of a simulator: {play}"
    how = {name: f"{name} -dc {packed} > {plain}" for name, begin in PACKED.items() if head.startswith(begin)}
    how |= {"zip": f"python3 -m zipfile -e {packed} {plain}"} if head.startswith(ZIP) else {}
    if head[AT_TAR:].startswith(TAR) or (how and {".tgz", ".tar"} & {*path.suffixes}):
        how = {"tar": f"tar -xf {packed}"}
    for packer, command in how.items():
        return f"{path} is packed with {packer}: unpack it ({command}), then give the bag in it"
    kind = f"a file of the kind {path.suffix[1:] or 'unknown'}"
    other = f"{path} is no bag but {kind}: docs/replay.md shows how to write its values as a bag"
    return "" if path.suffix in BAGS else other


def _others(folder: Path) -> str:
    """Return the bags in a folder's folders, or what a file of it is; empty without either."""
    inside = sorted(folder.iterdir())
    bags = [each.name for each in inside if each.is_dir() and any(_is_bag_file(file) for file in each.iterdir())]
    found = [f"it holds the bags {', '.join(bags[:MANY])}: name one of them"] if bags else []
    found += [_what_it_is(file) for file in inside if file.is_file() and file.suffix != ".yaml"]
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
    if not files or not all(map(_is_bag_file, files)):
        raise ValueError("its metadata.yaml names a file that is no bag file" if files else "it names no file")
    if missing := [file.name for file in files if not file.is_file()]:
        raise ValueError(f"{missing[0]} is missing")
    if len({file.resolve() for file in files}) < len(files):
        raise ValueError("its metadata.yaml names a file more than once")
    if len({_numbered(file)[::2] for file in files}) == 1:  # rosbag2 counts them; after other names, its order counts
        files = tuple(sorted(files, key=_numbered))
    return Bag(folder, files, metadata.custom_data)


@dataclass(frozen=True)
class _Metadata:
    """The used part of rosbag2's metadata."""

    relative_file_paths: tuple[str, ...] = ()
    custom_data: dict[str, str] = field(default_factory=dict)


def _metadata(content: bytes | str, entry: str = "") -> _Metadata:
    """Read metadata from a YAML document or from one entry of it, in which every scalar stays text."""
    document = parse_yaml(content, yaml.CBaseLoader)
    facts = document[entry] if entry else document
    if isinstance(facts, dict) and isinstance(facts.get("custom_data"), str):  # null
        del facts["custom_data"]
    return msgspec.convert(facts, _Metadata)


def _custom_data(files: tuple[Path, ...]) -> dict[str, str]:
    """Return the recorder's entries in the metadata that rosbag2 also writes into the files; the last is the newest."""
    custom: dict[str, str] = {}
    for file in files:
        for text in METADATA[file.suffix](file) if file.suffix in METADATA and file.stat().st_size else ():
            with suppress(*UNREADABLE):
                custom.update(_metadata(text).custom_data)
    return custom


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
            raise ReplayError(damage(path, 0, f"it cannot be decompressed ({error})").sentence) from error
    except OSError as error:
        raise ReplayError(unpacking_failed(path, folder, error)) from error
    return plain
