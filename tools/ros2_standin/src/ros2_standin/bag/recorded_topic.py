"""What a bag tells about a topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml


@dataclass(frozen=True)
class RecordedTopic:
    """A topic as it was when its recording began."""

    name: str
    type: str
    type_hash: str  # RIHS01_..., empty if unknown
    qos_profiles: tuple[dict[str, Any], ...]  # of each publisher, as metadata.yaml has them
    definition: str  # the message's fields and those of its parts; empty if unknown
    definition_encoding: str  # ros2msg, ros2idl, or empty
    serialization_format: str = "cdr"

    def channel_metadata(self) -> dict[str, str]:
        """Return what stands beside the topic in an mcap file."""
        profiles = yaml.safe_dump(list(self.qos_profiles), sort_keys=False).strip()
        return {"offered_qos_profiles": profiles, "topic_type_hash": self.type_hash}
