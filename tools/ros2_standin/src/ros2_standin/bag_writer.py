"""Writes bags as rosbag2 of Jazzy does: a folder with metadata.yaml (version 9) and mcap files."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import yaml
from mcap.writer import CompressionType, Writer

METADATA_FILE = "metadata.yaml"
METADATA_VERSION = 9
DISTRIBUTION = "jazzy"  # of the wheels' messages
SERIALIZATION_FORMAT = "cdr"
# rosbag2's presets for mcap. The library has one level of zstd; of a robot's messages level 19 makes 1.3 % less.
COMPRESSIONS = {"none": CompressionType.NONE, "zstd_fast": CompressionType.ZSTD, "zstd_small": CompressionType.ZSTD}
PENDING_SIZE = 32 << 20  # bytes that may wait for the next flush
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # metadata.yaml is written every second: a tenth of the time
# Topic, received [ns], sent [ns], serialized message.
Received = tuple[str, int, int, bytes]


@dataclass(frozen=True)
class RecordedTopic:
    """A topic as it was when its recording began."""

    name: str
    type: str
    type_hash: str  # RIHS01_..., empty if unknown
    qos_profiles: tuple[dict[str, Any], ...]  # of each publisher, as metadata.yaml has them
    definition: str  # fields of the message and of its parts; empty if unknown


class McapFile:
    """One of a bag's mcap files, complete after every `commit`.

    The library's writer ends a file with a summary. Here it does so at every commit, into memory, and the next commit
    overwrites that end, in one write with the messages before it: a killed recorder leaves a complete file. This relies
    on `Writer.finish` changing nothing but the summary's offsets, which are not written.
    """

    def __init__(self, path: Path, compression: CompressionType) -> None:
        """Create the file, empty until the first commit."""
        self.name = path.name
        self.counts: Counter[str] = Counter()  # committed messages of each topic
        self.start = self.end = 0  # [ns], the earliest and the latest of them
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        self._waiting = bytearray()
        self._data_end, self._summary = 0, b""
        self._channels: dict[str, int] = {}
        self._schemas: dict[str, int] = {}
        self._writer = Writer(cast(IO[bytes], self), compression=compression, use_summary_offsets=False)
        self._writer.start("ros2", "fcnet ros2_standin")

    def write(self, data: bytes) -> None:
        """Take the output of the library's writer."""
        self._waiting += data

    def tell(self) -> int:
        """Return the position of the library's writer in the file."""
        return self._data_end + len(self._waiting)

    def flush(self) -> None:
        """Do nothing: `commit` writes."""

    def describe(self, information: Mapping[str, Any]) -> None:
        """Add rosbag2's information about the bag; readers keep the last."""
        self._writer.add_metadata("rosbag2", {"serialized_metadata": _as_yaml(information)})

    def add_topic(self, topic: RecordedTopic) -> None:
        """Make a topic known; before its first message."""
        if topic.type not in self._schemas:
            encoding = "ros2msg" if topic.definition else ""
            self._schemas[topic.type] = self._writer.register_schema(topic.type, encoding, topic.definition.encode())
        profiles = yaml.safe_dump(list(topic.qos_profiles), sort_keys=False).strip()
        facts = {"offered_qos_profiles": profiles, "topic_type_hash": topic.type_hash}
        schema = self._schemas[topic.type]
        self._channels[topic.name] = self._writer.register_channel(topic.name, SERIALIZATION_FORMAT, schema, facts)

    def add(self, messages: Sequence[Received]) -> None:
        """Take messages, in the order of their reception, for the next commit."""
        for topic, received, sent, data in messages:
            self._writer.add_message(self._channels[topic], received, data, sent)
        if messages:
            first, last = messages[0][1], messages[-1][1]
            self.start, self.end = (min(self.start, first), max(self.end, last)) if self.counts else (first, last)
            self.counts.update(message[0] for message in messages)

    def commit(self) -> None:
        """Write the messages taken; after an OSError the file is as before and takes no more."""
        self._writer.flush()
        size = len(self._waiting)
        self._writer.finish()
        content = bytes(self._waiting)
        self._waiting.clear()
        try:
            self._write_at_data_end(content)
        except OSError:
            with contextlib.suppress(OSError):
                self._write_at_data_end(self._summary)
                os.ftruncate(self._file, self._data_end + len(self._summary))
            if not self._summary:
                self._path.unlink()
            raise
        self._data_end, self._summary = self._data_end + size, content[size:]

    def _write_at_data_end(self, content: bytes) -> None:
        rest, position = memoryview(content), self._data_end
        while rest:
            written = os.pwrite(self._file, rest, position)
            position, rest = position + written, rest[written:]

    def close(self) -> None:
        """Close the file as it was last committed, and free the index of its messages, megabytes in ten minutes."""
        os.close(self._file)
        del self._writer, self._summary


class BagWriter:
    """A bag that is being recorded; used by one thread.

    Flushed messages are readable by others, even if this process crashes. Raises OSError if the disk is full or the
    folder is gone; messages flushed before stay readable, and only `close` may be called afterwards.
    """

    def __init__(
        self,
        folder: Path,
        compression: CompressionType = CompressionType.NONE,
        max_duration: int = 0,
        custom_data: Mapping[str, str] | None = None,
    ) -> None:
        """Create the folder; a new file starts after `max_duration` [ns], unless 0."""
        self.folder = folder
        self.topics: list[RecordedTopic] = []
        self.count = 0  # messages that have been written
        self._compression = compression
        self._max_duration = max_duration
        self._custom_data = dict(custom_data or {})
        self._pending: list[Received] = []
        self._pending_size = 0
        self._file_start: int | None = None  # [ns], the first message of the current file
        self._failed = False
        folder.mkdir(parents=True)
        self._files = [self._next_file(0)]  # the last one is open
        self._write_metadata()

    def add_topic(self, topic: RecordedTopic) -> None:
        """Make a topic known; before its first message."""
        self.topics.append(topic)
        self._files[-1].add_topic(topic)

    def add(self, messages: Iterable[Received]) -> None:
        """Take messages in the order of their reception; they are written with the next `flush`, or before."""
        for message in messages:
            if self._file_start is None:
                self._file_start = message[1]
            elif self._max_duration and message[1] - self._file_start > self._max_duration:
                self._split()
                self._file_start = message[1]
            self._pending.append(message)
            self._pending_size += len(message[3])
            if self._pending_size >= PENDING_SIZE:
                self.flush()

    def flush(self) -> None:
        """Write the messages taken and the metadata."""
        if self._pending:
            self._commit(last=False)
            self._write_metadata()

    def close(self) -> None:
        """Write the messages taken and end the bag."""
        try:
            if not self._failed:
                self._commit(last=True)
                self._write_metadata()
        finally:
            self._files[-1].close()

    def _commit(self, last: bool) -> None:
        """Write the messages taken to the current file; the last time also a description of the bag."""
        file, messages = self._files[-1], sorted(self._pending, key=lambda message: message[1])
        self._pending, self._pending_size = [], 0
        file.add(messages)
        if last:
            file.describe(self._describe(self._files))
        try:
            file.commit()
        except OSError:
            self._failed = True
            raise
        self.count += len(messages)

    def _split(self) -> None:
        self._commit(last=True)
        following = self._next_file(len(self._files))  # first: a full disk leaves the current file as it is
        self._files[-1].close()
        self._files.append(following)
        self._write_metadata()

    def _next_file(self, number: int) -> McapFile:
        """Create a file, which starts with its description and all topics."""
        file = McapFile(self.folder / f"{self.folder.resolve().name}_{number}.mcap", self._compression)
        try:
            file.describe(self._describe([file]))
            file.commit()
        except OSError:
            file.close()
            raise
        for topic in self.topics:
            file.add_topic(topic)
        return file

    def _write_metadata(self) -> None:
        """Replace metadata.yaml in one step."""
        draft = self.folder / f"{METADATA_FILE}.tmp"
        information = self._describe(self._files)
        try:
            draft.write_text(_as_yaml({"rosbag2_bagfile_information": information}), encoding="utf-8")
            draft.replace(self.folder / METADATA_FILE)
        except OSError:
            draft.unlink(missing_ok=True)
            raise

    def _describe(self, files: Sequence[McapFile]) -> dict[str, Any]:
        """Return rosbag2's information about a bag of these files."""
        filled = [file for file in files if file.counts]
        start = min((file.start for file in filled), default=0)
        end = max((file.end for file in filled), default=start)
        return {
            "version": METADATA_VERSION,
            "storage_identifier": "mcap",
            "duration": {"nanoseconds": end - start},
            "starting_time": {"nanoseconds_since_epoch": start},
            "message_count": sum(file.counts.total() for file in files),
            "topics_with_message_count": [
                {
                    "topic_metadata": {
                        "name": topic.name,
                        "type": topic.type,
                        "serialization_format": SERIALIZATION_FORMAT,
                        "offered_qos_profiles": [dict(profile) for profile in topic.qos_profiles],
                        "type_description_hash": topic.type_hash,
                    },
                    "message_count": sum(file.counts[topic.name] for file in files),
                }
                for topic in self.topics
            ],
            "compression_format": "",
            "compression_mode": "",
            "relative_file_paths": [file.name for file in files],
            "files": [
                {
                    "path": file.name,
                    "starting_time": {"nanoseconds_since_epoch": file.start},
                    "duration": {"nanoseconds": file.end - file.start},
                    "message_count": file.counts.total(),
                }
                for file in files
            ],
            "custom_data": self._custom_data or None,
            "ros_distro": DISTRIBUTION,
        }


def _as_yaml(information: Mapping[str, Any]) -> str:
    return yaml.dump(dict(information), Dumper=_DUMPER, sort_keys=False, allow_unicode=True)
