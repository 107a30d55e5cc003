"""Measures `ros2 bag record`: topics at a high rate from one process, recorded by another, counted in the bag.

Run it in a shell after `. env.sh`, on an otherwise idle machine; other work on the same cores makes it look worse:
    python benchmarks/record_rate.py --duration 30
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import serialize_message
from rosbags.rosbag2 import Reader
from sensor_msgs.msg import JointState

from fcnet_ros.testing import Client, Process, cpu_seconds, own_domain, wait_until

JOINTS = 12


def publish_for(publishers: list[Publisher], duration: float, rate: float) -> int:
    """Publish joint states for `duration` [s] at `rate` [Hz] on every topic; return the number of messages."""
    values = [0.1] * JOINTS
    names = [f"joint_{number}" for number in range(JOINTS)]
    content = serialize_message(JointState(name=names, position=values, velocity=values, effort=values))
    cycles = int(duration * rate)
    start = time.monotonic()
    for number in range(cycles):
        for publisher in publishers:
            publisher.publish(content)
        time.sleep(max(0.0, start + (number + 1) / rate - time.monotonic()))
    return cycles * len(publishers)


def main() -> int:
    """Record, count and print; 1 if a message is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=12)
    parser.add_argument("--rate", type=float, default=500.0, help="of each topic [Hz]")
    parser.add_argument("--duration", type=float, default=30.0, help="[s]")
    parser.add_argument("--reliable", action="store_true", help="instead of best effort, as sensors are published")
    arguments = parser.parse_args()
    reliability = ReliabilityPolicy.RELIABLE if arguments.reliable else ReliabilityPolicy.BEST_EFFORT
    topics = [f"topic_{number:02d}" for number in range(arguments.topics)]
    with tempfile.TemporaryDirectory() as folder:
        bag = Path(folder) / "bag"
        command = ["ros2", "bag", "record", "-o", str(bag), *(f"/{topic}" for topic in topics)]
        with own_domain() as domain, Client(domain, "source") as client, Process(command, domain) as recorder:
            profile = QoSProfile(depth=10, reliability=reliability)
            publishers = [client.node.create_publisher(JointState, topic, profile) for topic in topics]
            wait_until(lambda: all(one.get_subscription_count() for one in publishers), "a recorder of every topic")
            time.sleep(1.0)
            before, started = cpu_seconds(recorder.process.pid), time.monotonic()
            sent = publish_for(publishers, arguments.duration, arguments.rate)
            elapsed = time.monotonic() - started
            share = (cpu_seconds(recorder.process.pid) - before) / elapsed
            time.sleep(1.0)
        with Reader(bag) as reader:
            recorded = reader.message_count
        size = sum(file.stat().st_size for file in bag.iterdir())
    print(
        f"sent {sent} ({sent / elapsed:.0f}/s of {arguments.topics * arguments.rate:.0f}/s), recorded {recorded}, "
        f"lost {sent - recorded}; recorder {share:.1%} of a core, {size / elapsed / 1e6:.2f} MB/s"
    )
    return 0 if recorded == sent else 1


if __name__ == "__main__":
    sys.exit(main())
