"""Measures whether a bridge goes on commanding the motors while a subscriber of its topics is stopped (SIGSTOP).

Run it in a shell after `. env.sh`, once as it is and once with the shared memory that the bridge avoids:
    python benchmarks/bridge/frozen_subscriber.py
    python benchmarks/bridge/frozen_subscriber.py --shared-memory
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time
from contextlib import ExitStack

from fcnet_core.robot import load_robot
from fcnet_ros.testing import Process, own_domain, wait_until
from unitree_lowlevel.codec import GEN33
from unitree_lowlevel.fake_board.board import FakeBoard
from unitree_lowlevel.fake_board.physics import JointPhysics

START_TIME = 5.0  # [s] for the bridge and its subscribers to find each other
STOPPED = 0.4  # [s]
LONG = 0.05  # [s] between two commands, what a busy machine alone does not bring about
SUBSCRIBER = """
import rclpy
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Imu, JointState
rclpy.init()
node = rclpy.create_node("subscriber")
for kind, topic in ((JointState, "joint_states"), (Imu, "imu/data")):
    node.create_subscription(kind, topic, lambda _message: None, qos_profile_sensor_data, raw=True)
rclpy.spin(node)
"""


def main() -> int:
    """Measure and print; 1 where the bridge was held up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stops", type=int, default=50, help="how often a subscriber is stopped")
    parser.add_argument("--shared-memory", action="store_true", help="let the bridge use shared memory")
    arguments = parser.parse_args()
    # The bridge leaves a choice of transports as it is.
    choice = {"FASTDDS_BUILTIN_TRANSPORTS": "DEFAULT"} if arguments.shared_memory else {}
    with ExitStack() as stack:
        domain = stack.enter_context(own_domain())
        board = stack.enter_context(FakeBoard(GEN33, JointPhysics(load_robot("aliengo"))))
        network = ["-p", "network.target:=127.0.0.1", "-p", f"network.port:={board.address[1]}"]
        parameters = ["--ros-args", *network, "-p", "network.local_port:=0", "-p", "auto_start:=true"]
        stack.enter_context(Process(["ros2", "run", "aliengo_bridge", "bridge", *parameters], domain, choice))
        subscribers = [stack.enter_context(Process([sys.executable, "-c", SUBSCRIBER], domain)) for _ in range(2)]
        wait_until(lambda: board.commands.recent, "commands of the bridge")
        time.sleep(START_TIME)
        board.commands.reset()
        for _ in range(arguments.stops):
            subscriber = random.choice(subscribers)
            subscriber.send(signal.SIGSTOP)
            time.sleep(STOPPED)
            subscriber.send(signal.SIGCONT)
            time.sleep(random.uniform(0.05, 0.15))
        intervals = board.commands.intervals
    held_up = int((intervals > LONG).sum())
    print(
        f"{arguments.stops} stops of {STOPPED:g} s: {held_up} gaps over {LONG:g} s, the longest {intervals.max():.3f} s"
    )
    return 1 if held_up else 0


if __name__ == "__main__":
    sys.exit(main())
