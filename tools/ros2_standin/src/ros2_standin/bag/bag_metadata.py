"""The file metadata.yaml of a bag, version 9 of rosbag2's format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from .recorded_topic import RecordedTopic

FILE_NAME = "metadata.yaml"
VERSION = 9
DISTRIBUTION = "jazzy"  # the wheels' messages
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # written every second: a tenth of the time


@dataclass(frozen=True)
class BagFile:
    """One of a bag's files."""

    name: str
    start: int  # [ns], the earliest message
    end: int  # [ns], the latest message
    counts: Mapping[str, int]  # messages of each topic

    @property
    def count(self) -> int:
        """How many messages the file holds."""
        return sum(self.counts.values())


def describe_bag(
    files: Sequence[BagFile], topics: Sequence[RecordedTopic], custom_data: Mapping[str, str]
) -> dict[str, Any]:
    """Return what metadata.yaml holds below `rosbag2_bagfile_information`."""
    filled = [file for file in files if file.count]
    start = min((file.start for file in filled), default=0)
    end = max((file.end for file in filled), default=start)
    return {
        "version": VERSION,
        "storage_identifier": "mcap",
        "duration": {"nanoseconds": end - start},
        "starting_time": {"nanoseconds_since_epoch": start},
        "message_count": sum(file.count for file in files),
        "topics_with_message_count": [
            {
                "topic_metadata": {
                    "name": topic.name,
                    "type": topic.type,
                    "serialization_format": topic.serialization_format,
                    "offered_qos_profiles": [dict(profile) for profile in topic.qos_profiles],
                    "type_description_hash": topic.type_hash,
                },
                "message_count": sum(file.counts.get(topic.name, 0) for file in files),
            }
            for topic in topics
        ],
        "compression_format": "",
        "compression_mode": "",
        "relative_file_paths": [file.name for file in files],
        "files": [
            {
                "path": file.name,
                "starting_time": {"nanoseconds_since_epoch": file.start},
                "duration": {"nanoseconds": file.end - file.start},
                "message_count": file.count,
            }
            for file in files
        ],
        "custom_data": dict(custom_data) or None,
        "ros_distro": DISTRIBUTION,
    }


def as_yaml(information: Mapping[str, Any]) -> str:
    """Return the information as an mcap file carries it."""
    return yaml.dump(dict(information), Dumper=_DUMPER, sort_keys=False, allow_unicode=True)


def write_metadata(folder: Path, information: Mapping[str, Any]) -> None:
    """Replace the bag's metadata.yaml at once."""
    draft = folder / f"{FILE_NAME}.tmp"
    try:
        draft.write_text(as_yaml({"rosbag2_bagfile_information": dict(information)}), encoding="utf-8")
        draft.replace(folder / FILE_NAME)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
