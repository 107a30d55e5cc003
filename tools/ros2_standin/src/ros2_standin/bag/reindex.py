"""Makes a bag readable again whose recorder could not end it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from ..verb_error import VerbError
from .bag_metadata import FILE_NAME, BagFile, as_yaml, describe_bag, write_metadata
from .bag_reader import is_complete
from .mcap_salvage import McapSalvage
from .mcap_writer import McapWriter
from .recorded_topic import RecordedTopic


def reindex(folder: Path) -> list[str]:
    """Write the bag's metadata.yaml anew and repair the files that break off; return what was repaired.

    The damaged file is kept beside the repaired one, as NAME.mcap.damaged.
    """
    if not folder.is_dir():
        raise VerbError(f"there is no bag folder '{folder}'")
    paths = sorted(folder.glob("*.mcap"), key=_number)
    if not paths:
        raise VerbError(f"'{folder}' has no mcap file to index")
    custom_data = _custom_data(folder / FILE_NAME) or _recorded_custom_data(paths)
    topics: dict[str, RecordedTopic] = {}
    files, repaired = [], []
    for path in paths:
        salvage = McapSalvage(path)
        if is_complete(path):
            files.append(_count(salvage))
        else:
            files.append(_repair(salvage, custom_data))
            repaired.append(f"'{path}': {salvage.damage}; its {files[-1].count} whole messages are saved")
        for topic in _topics(salvage):
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


def _recorded_custom_data(paths: Sequence[Path]) -> dict[str, str]:
    """Return the custom data that a file tells itself."""
    for path in paths:
        for text in McapSalvage(path).metadata():
            with contextlib.suppress(yaml.YAMLError, LookupError, TypeError, ValueError):
                if found := yaml.safe_load(text)["custom_data"]:
                    return dict(found)
    return {}


def _count(salvage: McapSalvage) -> BagFile:
    counts: dict[str, int] = {}
    start = end = 0
    for messages in salvage.messages():
        start = min(start, messages[0][1]) if counts else messages[0][1]
        end = max(end, messages[-1][1])
        for message in messages:
            topic = salvage.channels[message[0]].topic
            counts[topic] = counts.get(topic, 0) + 1
    if salvage.damage:
        raise VerbError(f"'{salvage.path}' is damaged: {salvage.damage}")
    return BagFile(salvage.path.name, start, end, counts)


def _repair(salvage: McapSalvage, custom_data: Mapping[str, str]) -> BagFile:
    draft = salvage.path.with_name(f"{salvage.path.name}.tmp")
    draft.unlink(missing_ok=True)
    writer = McapWriter(draft, as_yaml(describe_bag([], [], custom_data)))
    try:
        file = _copy(salvage, writer, custom_data)
    except (OSError, VerbError):
        draft.unlink(missing_ok=True)
        raise
    salvage.path.replace(salvage.path.with_name(f"{salvage.path.name}.damaged"))
    draft.replace(salvage.path)
    return file


def _copy(salvage: McapSalvage, writer: McapWriter, custom_data: Mapping[str, str]) -> BagFile:
    channels: dict[int, int] = {}
    schemas: dict[int, int] = {}
    for messages in salvage.messages():
        for number in sorted({message[0] for message in messages} - set(channels)):
            channel = salvage.channels[number]
            if channel.schema not in schemas:
                schema = salvage.schemas[channel.schema]
                schemas[channel.schema] = writer.add_schema(schema.name, schema.encoding, schema.text)
            channels[number] = writer.add_channel(
                channel.topic, schemas[channel.schema], channel.encoding, channel.metadata
            )
        writer.write([[(channels[number], received, sent, data) for number, received, sent, data in messages]])
    counts = {salvage.channels[number].topic: writer.counts[channel] for number, channel in channels.items()}
    file = BagFile(salvage.path.name, writer.start, writer.end, counts)
    writer.close(as_yaml(describe_bag([file], _topics(salvage), custom_data)))
    return file


def _topics(salvage: McapSalvage) -> list[RecordedTopic]:
    topics = []
    for channel in salvage.channels.values():
        schema = salvage.schemas[channel.schema]
        profiles = yaml.safe_load(channel.metadata.get("offered_qos_profiles", "")) or []
        kind_hash = channel.metadata.get("topic_type_hash", "")
        topics.append(
            RecordedTopic(
                channel.topic, schema.name, kind_hash, tuple(profiles), schema.text, schema.encoding, channel.encoding
            )
        )
    return topics
