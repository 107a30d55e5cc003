"""Keeps a control loop's messages from waiting for other processes."""

from __future__ import annotations

import os


def avoid_shared_memory() -> None:
    """Let Fast DDS use UDP alone in this process; call it before rclpy.init. A user's own choice is kept.

    Through shared memory, a publisher takes locks that it shares with its subscribers' processes: one that is stopped
    at the wrong moment (a monitor, a recorder) holds up whoever publishes for up to a second, and a bridge that is held
    up sends nothing to the motors (benchmarks/frozen_subscriber.py). Fast DDS of Humble does not know this variable:
    there a profile must say the same.
    """
    os.environ.setdefault("FASTDDS_BUILTIN_TRANSPORTS", "UDPv4")
