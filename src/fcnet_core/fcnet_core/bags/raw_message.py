"""One message as it lies in a bag."""

from __future__ import annotations

from typing import NamedTuple


class RawMessage(NamedTuple):
    """topic; kind: its ROS type, such as sensor_msgs/msg/Imu; received [ns]; data: CDR bytes."""

    topic: str
    kind: str
    received: int
    data: bytes
