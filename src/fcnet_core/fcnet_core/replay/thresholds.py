"""Limits for figures, for use in continuous integration."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

SECTIONS = ("modes_s", "timing", "motion", "tracking", "policies", "differences")
SHOWN = 12  # metrics told in an error


class ThresholdError(ValueError):
    """A threshold cannot be understood; the sentence says what is expected."""


@dataclass(frozen=True)
class Threshold:
    """metric: the path of a figure, with dots between its names, such as motion.tilt_rad.max; limit: the largest
    value that is accepted.
    """

    metric: str
    limit: float


def parse_threshold(text: str) -> Threshold:
    """A threshold from METRIC=VALUE. Raises ThresholdError."""
    metric, equals, value = text.partition("=")
    try:
        limit = float(value)
    except ValueError:
        limit = math.nan
    if not metric or not equals or math.isnan(limit):
        raise ThresholdError(f"a threshold is METRIC=VALUE, such as motion.tilt_rad.max=0.5, not {text!r}")
    return Threshold(metric, limit)


def broken_thresholds(figures: dict[str, Any], thresholds: Sequence[Threshold]) -> list[str]:
    """A sentence for each threshold that is broken. A figure that is not known breaks its threshold.

    A metric of a policy may leave out `policies.A.`. Raises ThresholdError for a metric that does not exist.
    """
    known = dict(_metrics({section: figures[section] for section in SECTIONS}))
    first = {name.removeprefix("policies.A."): value for name, value in known.items()}
    broken = []
    for threshold in thresholds:
        if threshold.metric not in {**first, **known}:
            raise ThresholdError(_unknown(threshold.metric, list(first)))
        value = {**first, **known}[threshold.metric]
        if value is None:
            broken.append(f"{threshold.metric} is not known, and at most {threshold.limit:g} is allowed")
        elif not value <= threshold.limit:
            broken.append(f"{threshold.metric} is {value:.6g}, above {threshold.limit:g}")
    return broken


def _metrics(figures: dict[str, Any], path: str = "") -> Iterator[tuple[str, float | None]]:
    """Every figure that a threshold can be set for, by its path."""
    for name, value in figures.items():
        if isinstance(value, dict):
            yield from _metrics(value, f"{path}{name}.")
        elif value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
            yield f"{path}{name}", value


def _unknown(metric: str, known: list[str]) -> str:
    words = metric.lower().replace(".", "_").split("_")
    nearest = sorted(known, key=lambda name: -sum(word in name.lower() for word in words))[:SHOWN]
    return f"there is no metric {metric}; some that there are: {', '.join(nearest)}; --json has all"
