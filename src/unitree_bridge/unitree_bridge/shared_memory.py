"""Keeps the bridge's messages from waiting for the processes that get them.

Through Fast DDS's shared memory, a publisher takes locks that it shares with its subscribers: one that is stopped at
the wrong moment (a monitor, a recorder) holds up whoever publishes for as long, up to a second, and a bridge that is
held up sends nothing to the motors. benchmarks/frozen_subscriber.py shows it. UDP waits for nobody.

The profiles also let the bridge greet twice a second instead of every 3 s: where one greeting is lost, which is often,
programs that start now find the bridge that much sooner (robot_claim.py).
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent
RANGE, LOCALHOST_ONLY = "ROS_AUTOMATIC_DISCOVERY_RANGE", "ROS_LOCALHOST_ONLY"
PROFILES = ("FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE")
TRANSPORTS = "FASTDDS_BUILTIN_TRANSPORTS"


def avoid_shared_memory() -> None:
    """Let this process use UDP alone, on the loopback alone where ROS is to stay there; call it before rclpy.init.

    A user's own profile, choice of transports or other middleware is left as it is.
    """
    middleware = os.environ.get("RMW_IMPLEMENTATION", "fastrtps")
    if "fastrtps" not in middleware or any(name in os.environ for name in (*PROFILES, TRANSPORTS)):
        return
    if os.environ.get(RANGE) != "LOCALHOST" and os.environ.get(LOCALHOST_ONLY) != "1":
        os.environ[PROFILES[0]] = str(FOLDER / "fastdds_network.xml")
        return
    # ROS itself adds shared memory where it is told to stay on this computer, so the profile says that instead.
    os.environ.pop(LOCALHOST_ONLY, None)
    os.environ |= {RANGE: "SUBNET", PROFILES[0]: str(FOLDER / "fastdds_loopback.xml")}
