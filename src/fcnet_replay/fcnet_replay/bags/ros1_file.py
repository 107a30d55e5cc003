"""Reads a finished ROS 1 bag (.bag) with rosbags, as CDR messages of ROS's own types."""

import bz2
import struct
from collections.abc import Iterator
from heapq import merge
from pathlib import Path
from shlex import quote

import lz4.frame
from rosbags.rosbag1 import Reader, ReaderError
from rosbags.typesys import Stores, get_typestore

from fcnet_core.errors import ReplayError
from fcnet_replay.bags.contents import Contents, Message, MessageBatch, Problem, batches_of, damage

LARGEST_CHUNK = 64 * 2**20  # [bytes] recorders write less than a megabyte; more is damage or meant to fill memory
# rosbags raises all of these for damaged files; its SerdeError is a ValueError.
UNREADABLE = (ReaderError, struct.error, ValueError, LookupError, AssertionError, EOFError, OSError, RuntimeError)
DECOMPRESSORS = {
    "bz2_decompress": lambda packed: bz2.BZ2Decompressor().decompress(packed, LARGEST_CHUNK),
    "lz4_decompress": lambda packed: bytes(lz4.frame.LZ4FrameDecompressor().decompress(packed, LARGEST_CHUNK)),
}


def read_ros1(path: Path, name: Path, wanted: frozenset[str] | None, contents: Contents) -> Iterator[MessageBatch]:
    """Yield the messages of these topics (None: all) in the order of recording. name: of the file in errors.

    Types that the bag itself defines are left out: rosbags would run code that it generates from their text. Raises
    ReplayError if the file is no finished ROS 1 bag. Reads up to damage.
    """
    return batches_of(_messages(path, name, wanted, contents))


def _messages(path: Path, name: Path, wanted: frozenset[str] | None, contents: Contents) -> Iterator[Message]:
    reader, read, types = Reader(path), 0, get_typestore(Stores.ROS2_JAZZY)
    try:
        reader.open()
    except UNREADABLE as error:
        what = f"it is no finished ROS 1 bag ({error!s:.200}); `rosbag reindex` of ROS 1 completes one"
        raise ReplayError(damage(name, 0, what).sentence) from error
    try:
        names = {c.id: contents.add_topic(c.topic, c.msgtype) for c in reader.connections}
        asked = [c for c in reader.connections if names[c.id] and (wanted is None or names[c.id] in wanted)]
        for place, chunk in reader.chunks.items():
            if chunk.datasize > LARGEST_CHUNK:
                raise ReaderError(f"a chunk of {chunk.datasize} bytes is larger than any recorder writes")
            limited = DECOMPRESSORS.get(chunk.decompressor.__name__, chunk.decompressor)
            reader.chunks[place] = chunk._replace(decompressor=limited)
        for unknown in [connection for connection in asked if connection.msgtype not in types.fielddefs]:
            asked.remove(unknown)
            convert = f"rosbags-convert --src {quote(str(name))} --dst {quote(name.stem)} --dst-storage mcap"
            what = f"messages of {unknown.topic} left out: ROS has no type {unknown.msgtype}; read what this writes"
            contents.problems.append(Problem("left_out", f"{what}: {convert}"))
        places = {at: chunk * 2**32 for chunk, at in enumerate(sorted(reader.chunks))}
        entries = merge(*(reader.indexes[connection.id] for connection in asked))  # as reader.messages does
        order = (places[entry.chunk_pos] + entry.offset for entry in entries)
        for place, (c, time, content) in zip(order, reader.messages(asked) if asked else (), strict=False):
            yield (names[c.id], c.msgtype), time, place, bytes(types.ros1_to_cdr(content, c.msgtype))
            read += 1
    except UNREADABLE as error:
        contents.problems.append(damage(name, None, f"after {read} messages: {error!s:.200}"))
    finally:
        reader.close()
