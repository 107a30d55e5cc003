"""What `ros2 bag info` prints, as upstream lays it out."""

from __future__ import annotations

import time

from .bag_reader import Bag

COLUMN = 19
SECOND = 1_000_000_000
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def report(bag: Bag, verbose: bool) -> str:
    """Return the report; `verbose` adds the custom data."""
    topics = [
        f"Topic: {topic.topic} | Type: {topic.msgtype} | Count: {topic.msgcount} | "
        f"Serialization Format: {getattr(topic.ext, 'serialization_format', 'unknown')}"
        for topic in sorted(bag.reader.connections, key=lambda topic: topic.topic)
    ]
    end = bag.start + bag.duration
    lines = [
        "",
        _listed("Files:", [file.name for file in bag.files]),
        _listed("Bag size:", [_size(sum(file.stat().st_size for file in bag.files))]),
        _listed("Storage id:", [bag.storage]),
        _listed("ROS Distro:", [bag.reader.ros_distro or "unknown"]),
        _listed("Duration:", [f"{_seconds(bag.duration)}s"]),
        _listed("Start:", [_date(bag.start)]),
        _listed("End:", [_date(end)]),
        _listed("Messages:", [str(bag.reader.message_count)]),
        _listed("Topic information:", topics),
        _listed("Service:", ["0"]),
        "Service information: ",
    ]
    if verbose:
        lines.append(_listed("Custom data:", [f"{key}: {value}" for key, value in bag.custom_data.items()]))
    return "\n".join(lines)


def _listed(title: str, values: list[str]) -> str:
    return title.ljust(COLUMN) + f"\n{' ' * COLUMN}".join(values)


def _seconds(duration: int) -> str:
    return f"{duration // SECOND}.{duration % SECOND:09d}"


def _date(stamp: int) -> str:
    date = time.localtime(stamp // SECOND)
    day = f"{time.strftime('%b', date)} {date.tm_mday:2d} {date.tm_year}"
    return f"{day} {time.strftime('%H:%M:%S', date)}.{stamp % SECOND:09d} ({_seconds(stamp)})"


def _size(size: float) -> str:
    unit = 0
    while size >= 1024 and unit < len(UNITS) - 1:
        size /= 1024
        unit += 1
    return f"{size:.{1 if unit else 0}f} {UNITS[unit]}"
