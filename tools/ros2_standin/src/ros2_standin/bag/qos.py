"""Quality of service: what publishers offer, what a recorder asks for, what a player offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from rclpy.qos import DurabilityPolicy, HistoryPolicy, LivelinessPolicy, QoSProfile, ReliabilityPolicy

from ..verb import VerbError

SECOND = 1_000_000_000
POLICIES = {
    "history": HistoryPolicy,
    "reliability": ReliabilityPolicy,
    "durability": DurabilityPolicy,
    "liveliness": LivelinessPolicy,
}
DURATIONS = ("deadline", "lifespan", "liveliness_lease_duration")
LATCHED_DEPTH = 10  # upstream's: what somebody who comes late is given


def profile_as_plain(profile: QoSProfile) -> dict[str, Any]:
    """Return the profile as metadata.yaml has it."""
    policies = {key: getattr(profile, key).short_key for key in POLICIES}
    durations = {key: divmod(getattr(profile, key).nanoseconds, SECOND) for key in DURATIONS}
    return {
        "history": policies["history"],
        "depth": profile.depth,
        "reliability": policies["reliability"],
        "durability": policies["durability"],
        **{key: {"sec": seconds, "nsec": rest} for key, (seconds, rest) in durations.items()},
        "liveliness": policies["liveliness"],
        "avoid_ros_namespace_conventions": bool(profile.avoid_ros_namespace_conventions),
    }


def profile_from_plain(values: Mapping[str, Any]) -> QoSProfile:
    """Return the profile of a mapping from policies to their names, and to a depth; VerbError if it says nonsense."""
    try:
        named = {key: POLICIES[key].get_from_short_key(value) for key, value in values.items() if key != "depth"}
        return QoSProfile(**{"depth": LATCHED_DEPTH, **values, **named})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise VerbError(f"{values} is no QoS profile of {', '.join(POLICIES)} and depth: {error}") from error


def read_overrides(path: str | None) -> dict[str, QoSProfile]:
    """Return the profiles by topic in a YAML file; VerbError if there is none."""
    if path is None:
        return {}
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        return {topic: profile_from_plain(values) for topic, values in (content or {}).items()}
    except (OSError, yaml.YAMLError, AttributeError) as error:
        raise VerbError(f"'{path}' does not give QoS profiles by topic as YAML: {error}") from error


def receiving_profile(offered: Sequence[QoSProfile], depth: int) -> QoSProfile:
    """Return a profile that receives from every publisher, latched messages included."""
    profile = QoSProfile(depth=depth, reliability=ReliabilityPolicy.BEST_EFFORT)
    if offered and all(other.reliability == ReliabilityPolicy.RELIABLE for other in offered):
        profile.reliability = ReliabilityPolicy.RELIABLE
    if offered and all(other.durability == DurabilityPolicy.TRANSIENT_LOCAL for other in offered):
        profile.durability = DurabilityPolicy.TRANSIENT_LOCAL
    return profile


def receives(requested: QoSProfile, offered: QoSProfile) -> bool:
    """Return whether a subscription with `requested` receives from a publisher with `offered`."""
    reliable = offered.reliability != ReliabilityPolicy.BEST_EFFORT
    latched = offered.durability != DurabilityPolicy.VOLATILE
    return (reliable or requested.reliability == ReliabilityPolicy.BEST_EFFORT) and (
        latched or requested.durability == DurabilityPolicy.VOLATILE
    )
