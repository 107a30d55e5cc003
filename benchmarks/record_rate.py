"""Measures `ros2 bag record`: topics at a high rate from one process, recorded by another, counted in the bag.

Run it in a shell after `. env.sh`, on an otherwise idle machine; other work on the same cores makes it look worse:
    python benchmarks/record_rate.py --duration 30
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import rclpy
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import serialize_message
from rosbags.rosbag2 import Reader
from sensor_msgs.msg import JointState

JOINTS = 12
PATIENCE = 30.0  # [s] until the recorder listens
TICKS = os.sysconf("SC_CLK_TCK")


class Source(Node):
    """Publishes joint states on all topics, round after round."""

    def __init__(self, topics: int, reliable: bool) -> None:
        super().__init__("record_rate_source")
        reliability = ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT
        profile = QoSProfile(depth=10, reliability=reliability)
        names = [f"topic_{number:02d}" for number in range(topics)]
        self.sources: list[Publisher] = [self.create_publisher(JointState, name, profile) for name in names]
        values = [0.1] * JOINTS
        joints = [f"joint_{number}" for number in range(JOINTS)]
        self._content = serialize_message(JointState(name=joints, position=values, velocity=values, effort=values))

    def wait_for_listener(self) -> None:
        """Wait until somebody listens to every topic."""
        end = time.monotonic() + PATIENCE
        while not all(source.get_subscription_count() for source in self.sources):
            if time.monotonic() > end:
                raise SystemExit(f"record_rate: the recorder does not listen to every topic within {PATIENCE:g} s")
            time.sleep(0.1)

    def publish_for(self, duration: float, rate: float) -> int:
        """Publish for `duration` [s] at `rate` [Hz] on every topic; return the number of messages."""
        rounds = int(duration * rate)
        start = time.monotonic()
        for number in range(rounds):
            for source in self.sources:
                source.publish(self._content)
            time.sleep(max(0.0, start + (number + 1) / rate - time.monotonic()))
        return rounds * len(self.sources)


def cpu_seconds(process: int) -> float:
    """Return the time that a process has spent on a core [s]."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def main() -> int:
    """Record, count and print; 1 if a message is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=12)
    parser.add_argument("--rate", type=float, default=500.0, help="of each topic [Hz]")
    parser.add_argument("--duration", type=float, default=30.0, help="[s]")
    parser.add_argument("--reliable", action="store_true", help="instead of best effort, as sensors are published")
    arguments = parser.parse_args()
    os.environ.setdefault("ROS_DOMAIN_ID", str(1 + os.getpid() % 100))
    rclpy.init()
    source = Source(arguments.topics, arguments.reliable)
    with tempfile.TemporaryDirectory() as folder:
        bag = Path(folder) / "bag"
        command = ["ros2", "bag", "record", "-o", str(bag), *(topic.topic_name for topic in source.sources)]
        recorder = subprocess.Popen(command)
        try:
            source.wait_for_listener()
            time.sleep(1.0)
            before, started = cpu_seconds(recorder.pid), time.monotonic()
            sent = source.publish_for(arguments.duration, arguments.rate)
            elapsed = time.monotonic() - started
            share = (cpu_seconds(recorder.pid) - before) / elapsed
            time.sleep(1.0)
        finally:
            recorder.send_signal(signal.SIGINT)
            recorder.wait()
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
