"""Writes bags as rosbag2 of Jazzy does: a folder with metadata.yaml (version 9) and mcap files."""

import contextlib
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import yaml
from mcap.writer import CompressionType, Writer

# rosbag2's presets for mcap. The library has one level of zstd; of a robot's messages level 19 makes 1.3 % less.
COMPRESSIONS = {"none": CompressionType.NONE, "zstd_fast": CompressionType.ZSTD, "zstd_small": CompressionType.ZSTD}
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # metadata.yaml is written every second: a tenth of the time
# Topic, received [ns], sent [ns], serialized message.
Received = tuple[str, int, int, bytes]


@dataclass(frozen=True)
class RecordedTopic:
    """A topic as it was when its recording began."""

    name: str
    type: str
    type_hash: str  # RIHS01_..., empty if unknown
    qos_profiles: list[dict[str, Any]]  # of each publisher, as metadata.yaml has them
    definition: str  # fields of the message and of its parts; empty if unknown


class McapFile:
    """One of a bag's mcap files, complete after every `commit`.

    The library's writer ends a file with a summary. Here it does so at every commit, into memory, and the next commit
    overwrites that end, in one write with the messages before it: a killed recorder leaves a complete file. This relies
    on `Writer.finish` changing nothing but the summary's offsets, which are not written.
    """

    def __init__(self, path: Path, compression: CompressionType) -> None:
        """Create the file, empty until the first commit."""
        self.path = path
        self.counts: Counter[str] = Counter()  # messages of each topic
        self.committed = 0  # messages
        self.failed = False  # whether a commit has failed
        self.start = self.end = 0  # [ns], the earliest and the latest of them
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
        facts = {"offered_qos_profiles": _as_yaml(topic.qos_profiles).strip(), "topic_type_hash": topic.type_hash}
        self._channels[topic.name] = self._writer.register_channel(topic.name, "cdr", self._schemas[topic.type], facts)

    def add(self, message: Received) -> None:
        """Take a message, in the order of reception, for the next commit."""
        topic, received, sent, data = message
        self.start, self.end = min(self.start or received, received), max(self.end, received)
        self.counts[topic] += 1
        self._writer.add_message(self._channels[topic], received, data, sent)

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
            self.failed = True
            with contextlib.suppress(OSError):
                self._write_at_data_end(self._summary)
                os.ftruncate(self._file, self._data_end + len(self._summary))
            if not self._summary:
                self.path.unlink()
            raise
        self._data_end, self._summary = self._data_end + size, content[size:]
        self.committed = self.counts.total()

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

    Written messages are readable by others, even if this process crashes. Raises OSError if the disk is full or the
    folder is gone; messages written before stay readable, and only `close` may be called afterwards.
    """

    def __init__(self, folder: Path, compression: CompressionType, max_duration: int, custom: dict[str, str]) -> None:
        """Create the folder. A new file starts after `max_duration` [ns], unless 0. custom: data to store with it."""
        self.folder = folder
        self.topics: list[RecordedTopic] = []
        self._compression, self._max_duration, self._custom = compression, max_duration, custom
        folder.mkdir(parents=True)
        self._files = [self._next_file(0)]  # the last one is open
        self._write_metadata()

    @property
    def count(self) -> int:
        """Number of messages that have been written."""
        return sum(file.committed for file in self._files)

    def add_topic(self, topic: RecordedTopic) -> None:
        """Make a topic known; before its first message."""
        self.topics.append(topic)
        self._files[-1].add_topic(topic)

    def write(self, messages: Iterable[Received]) -> None:
        """Write messages, received after those written before, and the metadata."""
        for message in sorted(messages, key=lambda message: message[1]):
            file = self._files[-1]
            if self._max_duration and file.counts and message[1] - file.start > self._max_duration:
                self._end_file()
                following = self._next_file(len(self._files))  # first: a full disk leaves the current file as it is
                file.close()
                self._files.append(following)
            self._files[-1].add(message)
        self._files[-1].commit()
        self._write_metadata()

    def close(self) -> None:
        """End the bag."""
        try:
            if not self._files[-1].failed:
                self._end_file()
                self._write_metadata()
        finally:
            self._files[-1].close()

    def _end_file(self) -> None:
        """Commit the current file for the last time, with a description of the bag."""
        self._files[-1].describe(self._describe(self._files))
        self._files[-1].commit()

    def _next_file(self, number: int) -> McapFile:
        """Create a file, which starts with its description and all topics."""
        file = McapFile(self.folder / f"{self.folder.resolve().name}_{number}.mcap", self._compression)
        file.describe(self._describe([file]))
        file.commit()
        for topic in self.topics:
            file.add_topic(topic)
        return file

    def _write_metadata(self) -> None:
        """Replace metadata.yaml in one step."""
        draft = self.folder / "metadata.yaml.tmp"
        information = {"rosbag2_bagfile_information": self._describe(self._files)}
        draft.write_text(_as_yaml(information), encoding="utf-8")
        draft.replace(self.folder / "metadata.yaml")

    def _describe(self, files: Sequence[McapFile]) -> dict[str, Any]:
        """Return rosbag2's information about a bag of these files."""

        def facts(start: int, end: int, count: int) -> dict[str, Any]:
            duration = {"nanoseconds": max(end - start, 0)}
            starting_time = {"nanoseconds_since_epoch": start}
            return {"starting_time": starting_time, "duration": duration, "message_count": count}

        start = min((file.start for file in files if file.counts), default=0)
        count = sum(file.counts.total() for file in files)
        return {
            "version": 9,
            "storage_identifier": "mcap",
            **facts(start, max(file.end for file in files), count),
            "topics_with_message_count": [
                {
                    "topic_metadata": {
                        "name": topic.name,
                        "type": topic.type,
                        "serialization_format": "cdr",
                        "offered_qos_profiles": topic.qos_profiles,
                        "type_description_hash": topic.type_hash,
                    },
                    "message_count": sum(file.counts[topic.name] for file in files),
                }
                for topic in self.topics
            ],
            "compression_format": "",
            "compression_mode": "",
            "relative_file_paths": [file.path.name for file in files],
            "files": [{"path": file.path.name, **facts(file.start, file.end, file.counts.total())} for file in files],
            "custom_data": self._custom or None,
            "ros_distro": "jazzy",  # of the wheels' messages
        }


def _as_yaml(content: Any) -> str:
    return yaml.dump(content, Dumper=_DUMPER, sort_keys=False, allow_unicode=True)
