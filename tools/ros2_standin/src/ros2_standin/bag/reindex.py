"""Reads what is whole in damaged mcap files, and makes a bag readable again whose recorder could not end it."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

import yaml
from mcap.exceptions import EndOfFile
from mcap.records import Channel, McapRecord, Message, Metadata, Schema, Statistics
from mcap.stream_reader import StreamReader

from ..verb import VerbError
from .reader import DAMAGE, is_complete
from .writer import (
    COMPRESSIONS,
    METADATA_FILE,
    BagFile,
    McapFile,
    Received,
    RecordedTopic,
    describe_bag,
    write_metadata,
)

LARGEST_RECORD = 1 << 30  # bytes; a length beyond is damage
BATCH = 5000  # messages that are copied at once


class Salvage:
    """The topics and messages of an mcap file up to the first damage."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.topics: dict[int, RecordedTopic] = {}  # by the number of their channel
        self.custom_data: dict[str, str] = {}  # as the file itself tells
        self.damage = ""  # what ended the reading, if not the file's proper end
        self._schemas: dict[int, Schema] = {}

    def messages(self) -> Iterator[Received]:
        """Give the messages as they stand in the file."""
        count, expected = 0, None
        with self.path.open("rb") as file:
            reader = StreamReader(cast(IO[bytes], _WholeReads(file)), False, False, True, LARGEST_RECORD)
            try:
                for record in reader.records:
                    if isinstance(record, Message):
                        topic = self.topics[record.channel_id].name
                        count += 1
                        yield topic, record.log_time, record.publish_time, record.data
                    elif isinstance(record, Statistics):
                        expected = record.message_count
                    else:
                        self._take(record)
            except EndOfFile:
                self.damage = f"it breaks off after {self.path.stat().st_size} bytes"
            except DAMAGE as error:
                self.damage = f"it is damaged before byte {file.tell()} ({error})"
        if expected not in (None, count) and not self.damage:
            self.damage = f"{count} of its {expected} messages are whole"

    def _take(self, record: McapRecord) -> None:
        if isinstance(record, Schema):
            self._schemas[record.id] = record
        elif isinstance(record, Channel) and record.id not in self.topics:
            schema = self._schemas[record.schema_id]
            self.topics[record.id] = RecordedTopic(
                record.topic,
                schema.name,
                record.metadata.get("topic_type_hash", ""),
                tuple(yaml.safe_load(record.metadata.get("offered_qos_profiles", "")) or []),
                schema.data.decode(),
                schema.encoding,
                record.message_encoding,
            )
        elif isinstance(record, Metadata) and record.name == "rosbag2":
            with contextlib.suppress(yaml.YAMLError, LookupError, TypeError, ValueError):
                self.custom_data = dict(yaml.safe_load(record.metadata["serialized_metadata"])["custom_data"] or {})


class _WholeReads:
    """A file that gives as many bytes as it is asked for; EndOfFile where it has fewer."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int) -> bytes:
        content = self._file.read(size)
        if len(content) != size:
            raise EndOfFile
        return content


def reindex(folder: Path) -> list[str]:
    """Write the bag's metadata.yaml anew and repair the files that break off; return what was repaired.

    The damaged file is kept beside the repaired one, as NAME.mcap.damaged.
    """
    if not folder.is_dir():
        raise VerbError(f"there is no bag folder '{folder}'")
    paths = sorted(folder.glob("*.mcap"), key=_number)
    if not paths:
        raise VerbError(f"'{folder}' has no mcap file to index")
    custom_data = _custom_data(folder / METADATA_FILE)
    topics: dict[str, RecordedTopic] = {}
    files, repaired = [], []
    for path in paths:
        salvage = Salvage(path)
        complete = is_complete(path)
        files.append(_copy(salvage) if complete else _repair(salvage, custom_data))
        if complete and salvage.damage:
            raise VerbError(f"'{path}' is damaged: {salvage.damage}")
        if salvage.damage:
            repaired.append(f"'{path}': {salvage.damage}; its {files[-1].counts.total()} whole messages are saved")
        custom_data = custom_data or salvage.custom_data
        for topic in salvage.topics.values():
            topics.setdefault(topic.name, topic)
    write_metadata(folder, describe_bag(files, list(topics.values()), custom_data))
    return repaired


def _number(path: Path) -> tuple[int, str]:
    digits = re.search(r"_(\d+)\.mcap$", path.name)
    return (int(digits[1]) if digits else -1, path.name)


def _custom_data(path: Path) -> dict[str, str]:
    """Return the custom data of a metadata.yaml that is still there."""
    try:
        content: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
        return dict(content["rosbag2_bagfile_information"]["custom_data"] or {})
    except (OSError, yaml.YAMLError, LookupError, TypeError, ValueError):
        return {}


def _copy(salvage: Salvage, file: McapFile | None = None) -> BagFile:
    """Read what is whole, and write it to `file`, if any."""
    found, known = BagFile(salvage.path.name), 0
    messages = salvage.messages()
    while batch := sorted(itertools.islice(messages, BATCH), key=lambda message: message[1]):
        found = found.with_messages(batch)
        if file is not None:
            for topic in list(salvage.topics.values())[known:]:
                file.add_topic(topic)
            known = len(salvage.topics)
            file.add(batch)
            file.commit()
    return found


def _repair(salvage: Salvage, custom_data: dict[str, str]) -> BagFile:
    draft = salvage.path.with_name(f"{salvage.path.name}.tmp")
    draft.unlink(missing_ok=True)
    file = McapFile(draft, describe_bag([], [], custom_data), COMPRESSIONS["none"])
    try:
        found = _copy(salvage, file)
        topics = list(salvage.topics.values())
        file.describe(describe_bag([found], topics, custom_data or salvage.custom_data))
        file.commit()
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    finally:
        file.close()
    salvage.path.replace(salvage.path.with_name(f"{salvage.path.name}.damaged"))
    draft.replace(salvage.path)
    return found
