"""Writes a bag."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from .bag_metadata import BagFile, as_yaml, describe_bag, write_metadata
from .mcap_writer import McapWriter, Message
from .recorded_topic import RecordedTopic

CHUNK_SIZE = 1 << 20  # bytes of messages
PENDING_SIZE = 32 << 20  # bytes that may wait for the next flush
OVERHEAD = 47  # bytes that a message takes in the file besides its data
# Topic, received [ns], sent [ns], serialized message.
Received = tuple[str, int, int, bytes]


class BagWriter:
    """A folder with mcap files and metadata.yaml; used by one thread.

    What has been flushed is readable by others from then on, whatever happens to this process. Raises OSError when the
    disk is full or the folder is gone; what was flushed before stays readable.
    """

    def __init__(
        self,
        folder: Path,
        *,
        level: int | None = None,
        max_size: int = 0,
        max_duration: int = 0,
        custom_data: Mapping[str, str] | None = None,
    ) -> None:
        """Create the folder; a new file begins after `max_size` bytes or `max_duration` nanoseconds, unless 0."""
        self.folder = folder
        self._level = level
        self._max_size = max_size
        self._max_duration = max_duration
        self._custom_data = dict(custom_data or {})
        self._topics: list[RecordedTopic] = []
        self._channels: dict[str, int] = {}
        self._schemas: dict[str, int] = {}
        self._finished: list[BagFile] = []
        self._pending: list[Message] = []
        self._pending_size = 0
        self._file_start: int | None = None  # [ns], the first message of the current file
        folder.mkdir(parents=True)
        self._file = self._next_file()
        self._write_metadata()

    @property
    def count(self) -> int:
        """How many messages have been written."""
        return sum(file.count for file in self._finished) + self._file.count

    @property
    def topic_count(self) -> int:
        """How many topics the bag knows."""
        return len(self._topics)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum((self.folder / file.name).stat().st_size for file in self._finished) + self._file.size

    def add_topic(self, topic: RecordedTopic) -> None:
        """Make a topic known; before its first message."""
        self._topics.append(topic)
        self._add_to_file(self._file, topic)

    def add(self, messages: Iterable[Received]) -> None:
        """Take messages in the order of their reception; they are written with the next `flush`, or before."""
        for name, received, sent, data in messages:
            if self._file_start is None:
                self._file_start = received
            elif self._max_duration and received - self._file_start > self._max_duration:
                self._split()
                self._file_start = received
            self._pending.append((self._channels[name], received, sent, data))
            self._pending_size += len(data) + OVERHEAD
            if self._max_size and self._file.size + self._pending_size >= self._max_size:
                self._write_pending()
                if self._file.size >= self._max_size:
                    self._split()
            elif self._pending_size >= PENDING_SIZE:
                self.flush()

    def flush(self) -> None:
        """Write what was taken and the metadata."""
        if self._pending:
            self._write_pending()
            self._write_metadata()

    def close(self) -> None:
        """Write what was taken and end the bag."""
        try:
            self._write_pending()
        finally:
            information = self._describe()
            self._file.close(as_yaml(information))
            write_metadata(self.folder, information)

    def _split(self) -> None:
        self._write_pending()
        following = self._next_file(1)  # first, so that a full disk leaves the current file as it is
        self._file.close(as_yaml(self._describe()))
        self._finished.append(self._described_file())
        self._file, self._file_start = following, None
        self._write_metadata()

    def _next_file(self, ahead: int = 0) -> McapWriter:
        self._channels.clear()
        self._schemas.clear()
        name = f"{self.folder.resolve().name}_{len(self._finished) + ahead}.mcap"
        begun = describe_bag([BagFile(name, 0, 0, {})], self._topics, self._custom_data)
        file = McapWriter(self.folder / name, as_yaml(begun), self._level)
        for topic in self._topics:
            self._add_to_file(file, topic)
        return file

    def _add_to_file(self, file: McapWriter, topic: RecordedTopic) -> None:
        if topic.type not in self._schemas:
            self._schemas[topic.type] = file.add_schema(topic.type, topic.definition_encoding, topic.definition)
        schema = self._schemas[topic.type]
        channel = file.add_channel(topic.name, schema, topic.serialization_format, topic.channel_metadata())
        self._channels[topic.name] = channel

    def _write_pending(self) -> None:
        messages = sorted(self._pending, key=lambda message: message[1])
        self._pending, self._pending_size = [], 0
        chunks: list[list[Message]] = [[]]
        size = 0
        for message in messages:
            if size >= CHUNK_SIZE:
                chunks.append([])
                size = 0
            chunks[-1].append(message)
            size += len(message[3])
        if messages:
            self._file.write(chunks)

    def _write_metadata(self) -> None:
        write_metadata(self.folder, self._describe())

    def _describe(self) -> dict[str, object]:
        return describe_bag([*self._finished, self._described_file()], self._topics, self._custom_data)

    def _described_file(self) -> BagFile:
        counts = {topic.name: self._file.counts[channel + 1] for channel, topic in enumerate(self._topics)}
        return BagFile(self._file.path.name, self._file.start, self._file.end, counts)
