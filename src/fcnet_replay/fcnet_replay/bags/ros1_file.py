"""Reads a ROS 1 bag (.bag) with rosbags; its messages stay in ROS 1's encoding, which ColumnDecoder reads."""

from __future__ import annotations

import bz2
import struct
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import lz4.frame
from rosbags.rosbag1 import Reader, ReaderError

from fcnet_core.errors import ReplayError
from fcnet_replay.bags.contents import Contents, MessageBatch, batch_of
from fcnet_replay.problem import damage

LARGEST_CHUNK = 64 * 2**20  # [bytes] recorders write less than a megabyte; more is damage or meant to fill memory
MESSAGES = 2000  # read at a time
UNREADABLE = (ReaderError, struct.error, ValueError, LookupError, AssertionError, EOFError, OSError, RuntimeError)
DECOMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "bz2_decompress": lambda packed: bz2.BZ2Decompressor().decompress(packed, LARGEST_CHUNK),
    "lz4_decompress": lambda packed: bytes(lz4.frame.LZ4FrameDecompressor().decompress(packed, LARGEST_CHUNK)),
}


def read_ros1(path: Path, name: Path, wanted: frozenset[str] | None, contents: Contents) -> Iterator[MessageBatch]:
    """Yield the messages of these topics (None: all) in the order of recording. name: of the file in sentences.

    Raises ReplayError for a file that is no finished ROS 1 bag. Messages before damage are read.
    """
    reader, read = Reader(path), 0
    try:
        reader.open()
    except UNREADABLE as error:
        raise ReplayError(damage(name, 0, f"it is no finished ROS 1 bag ({error!s:.200})").sentence) from error
    try:
        for connection in reader.connections:
            contents.topics[connection.topic] = connection.msgtype
            contents.definitions[connection.msgtype] = "ros1msg", connection.msgdef.data
        for place, chunk in reader.chunks.items():
            if chunk.datasize > LARGEST_CHUNK:
                raise ReaderError(f"a chunk of {chunk.datasize} bytes is larger than any recorder writes")
            limited = DECOMPRESSORS.get(chunk.decompressor.__name__, chunk.decompressor)
            reader.chunks[place] = chunk._replace(decompressor=limited)
        chosen = [connection for connection in reader.connections if wanted is None or connection.topic in wanted]
        messages = reader.messages(chosen) if chosen else iter(())
        while some := list(islice(messages, MESSAGES)):
            for number in dict.fromkeys(connection.id for connection, _, _ in some):
                mine = [entry for entry in some if entry[0].id == number]
                topic, kind = mine[0][0].topic, mine[0][0].msgtype
                received, data = [time for _, time, _ in mine], [bytes(content) for _, _, content in mine]
                yield batch_of(topic, kind, received, data, "ros1")
            read += len(some)
    except UNREADABLE as error:
        contents.problems.append(damage(name, None, f"after at least {read} messages: {error!s:.200}"))
    finally:
        reader.close()
