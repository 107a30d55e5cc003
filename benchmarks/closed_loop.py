"""Measures the control loop in ROS: simulator and controller as processes, joined by DDS, walking for a minute.

Run it in a shell after `. env.sh`, on an otherwise idle machine:
    python benchmarks/closed_loop.py --duration 60
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from trajectory_msgs.msg import JointTrajectory

from fcnet_core.names import DIAGNOSTICS, JOINT_TRAJECTORY, HealthKey

sys.path.append(str(Path(__file__).parent / "bridge"))
from common import drive_curves
from ros_harness import Client, Process, own_domain

SETTLE = 2.5  # [s] until a second of diagnostics is only about the walking robot
TARGETS = {"deadline_misses": 0.0, "response_p50_ms": 1.5, "response_p99_ms": 4.0}  # idle, two cores
QUANTILES = [f"{what}_{quantile}_ms" for what in ("wake", "step", "response") for quantile in ("p50", "p99", "max")]


def measure(robot: str, policy: str, duration: float) -> dict[str, float]:
    """Walk for `duration` [s] and return the figures."""
    command = ["ros2", "launch", "fcnet_controller", f"{robot}.launch.py", *([f"policy:={policy}"] if policy else [])]
    factors: list[float] = []
    arrivals: list[float] = []

    def take_factor(message: DiagnosticArray) -> None:
        values = {pair.key: pair.value for status in message.status for pair in status.values}
        if HealthKey.REAL_TIME_FACTOR in values:
            factors.append(float(values[HealthKey.REAL_TIME_FACTOR]))

    with own_domain() as domain, Client(domain, "meter") as client, Process(command, domain, echo=sys.stdout):
        client.subscribe(DiagnosticArray, DIAGNOSTICS.name, take_factor, 10)
        client.node.create_subscription(
            JointTrajectory, JOINT_TRAJECTORY.name, lambda _content: arrivals.append(time.monotonic()), 10, raw=True
        )
        client.until_mode("walking")
        time.sleep(SETTLE)
        missed_before = float(client.health["deadline_misses"])
        factors.clear()
        arrivals.clear()
        drive_curves(client, duration, yaw_rate=0.5)
        times = np.array(arrivals)
        time.sleep(1.1)  # for the diagnostics of the last second
        health = dict(client.health)
    gaps = 1e3 * np.diff(times)
    return {
        "duration_s": float(times[-1] - times[0]),
        "command_rate_hz": (len(times) - 1) / float(times[-1] - times[0]),
        "deadline_misses": float(health["deadline_misses"]) - missed_before,
        "command_gap_p50_ms": float(np.quantile(gaps, 0.5)),
        "command_gap_p99_ms": float(np.quantile(gaps, 0.99)),
        "command_gap_max_ms": float(gaps.max()),
        "slowest_real_time_factor": min(factors),
        **{name: float(health[name]) for name in QUANTILES},
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", default="aliengo", help="aliengo or a1")
    parser.add_argument("--policy", default="", help="model file; by default the one shipped for the robot")
    parser.add_argument("--duration", type=float, default=60.0, help="seconds to measure")
    arguments = parser.parse_args()
    figures = measure(arguments.robot, arguments.policy, arguments.duration)
    print(f"{'figure':<26} {'measured':>10} {'at most':>8}")
    for name, value in figures.items():
        print(f"{name:<26} {value:>10.3f} {TARGETS.get(name, ''):>8}".rstrip())


if __name__ == "__main__":
    main()
