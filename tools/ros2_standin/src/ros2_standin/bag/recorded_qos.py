"""Quality of service: what publishers offer, what a recorder asks for, what a player offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from rclpy.duration import Duration
from rclpy.qos import (
    DurabilityPolicy,
    HistoryPolicy,
    LivelinessPolicy,
    QoSProfile,
    ReliabilityPolicy,
)

from ..verb_error import VerbError

SECOND = 1_000_000_000
RECORDING_DEPTH = 2000  # messages of a topic that may wait while the recorder is kept from running
PLAYING_DEPTH = 1000
LATCHED_DEPTH = 10  # upstream's: what somebody who comes late is given
POLICIES = {
    "history": HistoryPolicy,
    "reliability": ReliabilityPolicy,
    "durability": DurabilityPolicy,
    "liveliness": LivelinessPolicy,
}
DURATIONS = ("deadline", "lifespan", "liveliness_lease_duration")
VALUES = ("depth", "avoid_ros_namespace_conventions")


def profile_as_plain(profile: QoSProfile) -> dict[str, Any]:
    """Return the profile as metadata.yaml has it."""
    return {
        "history": profile.history.short_key,
        "depth": profile.depth,
        "reliability": profile.reliability.short_key,
        "durability": profile.durability.short_key,
        "deadline": _split(profile.deadline),
        "lifespan": _split(profile.lifespan),
        "liveliness": profile.liveliness.short_key,
        "liveliness_lease_duration": _split(profile.liveliness_lease_duration),
        "avoid_ros_namespace_conventions": bool(profile.avoid_ros_namespace_conventions),
    }


def profile_from_plain(values: Mapping[str, Any]) -> QoSProfile:
    """Return the profile of a mapping as in metadata.yaml or a file of overrides; VerbError if it says nonsense."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        try:
            if key in POLICIES:
                found[key] = POLICIES[key].get_from_short_key(value) if isinstance(value, str) else POLICIES[key](value)
            elif key in DURATIONS:
                found[key] = Duration(seconds=value["sec"], nanoseconds=value["nsec"])
            elif key in VALUES:
                found[key] = value
            else:
                raise VerbError(f"a QoS profile has no '{key}'; it has: {', '.join([*POLICIES, *DURATIONS, *VALUES])}")
        except (KeyError, TypeError, ValueError) as error:
            raise VerbError(f"'{key}' of a QoS profile cannot be {value!r}") from error
    found.setdefault("depth", LATCHED_DEPTH)
    return QoSProfile(**found)


def read_overrides(path: str | None) -> dict[str, QoSProfile]:
    """Return the profiles by topic in a YAML file; VerbError if there is none."""
    if path is None:
        return {}
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            content = yaml.safe_load(file)
        return {topic: profile_from_plain(values) for topic, values in (content or {}).items()}
    except (OSError, yaml.YAMLError, AttributeError) as error:
        raise VerbError(f"'{path}' does not give QoS profiles by topic as YAML: {error}") from error


def recording_profile(offered: Sequence[QoSProfile]) -> QoSProfile:
    """Return a profile that receives from every publisher, latched messages included, and keeps many messages."""
    profile = QoSProfile(depth=RECORDING_DEPTH, reliability=ReliabilityPolicy.BEST_EFFORT)
    if offered and all(other.reliability == ReliabilityPolicy.RELIABLE for other in offered):
        profile.reliability = ReliabilityPolicy.RELIABLE
    if offered and all(other.durability == DurabilityPolicy.TRANSIENT_LOCAL for other in offered):
        profile.durability = DurabilityPolicy.TRANSIENT_LOCAL
    return profile


def takes_from(requested: QoSProfile, offered: QoSProfile) -> bool:
    """Return whether a subscription with `requested` hears a publisher with `offered`."""
    guaranteed = offered.reliability != ReliabilityPolicy.BEST_EFFORT
    latched = offered.durability != DurabilityPolicy.VOLATILE
    return (guaranteed or requested.reliability == ReliabilityPolicy.BEST_EFFORT) and (
        latched or requested.durability == DurabilityPolicy.VOLATILE
    )


def playing_profile(recorded: Sequence[Mapping[str, Any]]) -> QoSProfile | None:
    """Return what the recorded publishers offered; None if they differed."""
    if not recorded:
        return QoSProfile(depth=PLAYING_DEPTH)
    plain = [{key: value for key, value in profile.items() if key not in ("history", "depth")} for profile in recorded]
    if any(profile != plain[0] for profile in plain):
        return None
    profile = profile_from_plain(plain[0])
    # How many messages a publisher keeps is not known to those who discover it.
    latched = profile.durability == DurabilityPolicy.TRANSIENT_LOCAL
    profile.history, profile.depth = HistoryPolicy.KEEP_LAST, LATCHED_DEPTH if latched else PLAYING_DEPTH
    return profile


def _split(duration: Duration) -> dict[str, int]:
    seconds, rest = divmod(duration.nanoseconds, SECOND)
    return {"sec": seconds, "nsec": rest}
