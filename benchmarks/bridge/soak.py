"""Walks a simulated robot for an hour behind its bridge, with recording and monitor, and looks for falls and faults.

`ros2 launch ... backend:=desk record:=true monitor:=true`, driven by cmd_vel in wide curves: falls, faults, cycles that
were missed by a whole period, and how much each process's memory grows after a warm-up. Where SCHED_FIFO is permitted,
the board that is simulated on the same computer gets it: a real one shares no processor with the bridge. A fault ends
the walk. Run it in a shell after `. env.sh`, on an otherwise idle machine; the bag takes about 4 GB an hour in TMPDIR
and is removed at the end:
    python benchmarks/bridge/soak.py [--duration 3600] [--robot aliengo] [--params-file config/bridges/real_time.yaml]
Exit code 1: a fall, a fault, a process that exited or that grew by MOST_GROWTH.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from common import START_TIMEOUT, drive_curves, memory
from diagnostic_msgs.msg import DiagnosticArray
from nav_msgs.msg import Odometry
from ros_harness import Client, Process, launch_command, own_domain

from fcnet_core.verbs import markdown
from fcnet_ros.topics import DIAGNOSTICS, ODOM

WARM_UP = 300.0  # [s] of walking, at most a quarter of the duration; buffers reach their sizes
FALLEN = 0.5  # cosine of the trunk's tilt
MISSES = ("deadline_misses", "io_misses")  # counters of controller and bridge
MOST_GROWTH = 5.0  # [MB]
PRIORITY = 60  # SCHED_FIFO of the board, above the bridge's 40
# Parts of command lines that name a process, the first that fits.
NAMES = (
    "bag record",
    "ros2 launch",
    "io_process",
    "mujoco_board",
    "_bridge/bridge",
    "controller",
    "monitor",
    "teleop_joy",
)


def sizes_of(launch: Process) -> dict[str, float]:
    """Return the memory [MB] of each process of the launch by name, if the kernel reports it."""
    found: dict[str, float] = {}
    count: Counter[str] = Counter()
    for process, line in launch.survivors().items():
        name = next((part for part in NAMES if part in line), line.split("/")[-1][:40])
        count[name] += 1
        if (size := memory(process, "Pss")) is not None:
            found[f"{name} {count[name]}" if count[name] > 1 else name] = size
    return found


def give_priority(launch: Process, part: str) -> bool:
    """Give the process with `part` in its command line SCHED_FIFO; return False if that is not permitted."""
    for process, line in launch.survivors().items():
        if part in line:
            try:
                os.sched_setscheduler(process, os.SCHED_FIFO, os.sched_param(PRIORITY))
            except PermissionError:
                return False
    return True


def soak(robot: str, duration: float, folder: Path, params_file: Path | None) -> bool:
    """Walk for `duration` [s] after a warm-up and print the figures; return whether no fall, fault, exit or growth was
    seen.
    """
    options = {"backend": "desk", "record": "true", "bag": folder / "bag", "monitor": "true", "monitor_port": 0}
    options |= {"params_file": params_file} if params_file else {}
    warm_up = min(WARM_UP, 0.25 * duration)
    upright: list[float] = []  # cosine of the trunk's tilt
    rates: list[float] = []  # [Hz] at the wire

    def take_odometry(message: Odometry) -> None:
        attitude = message.pose.pose.orientation
        upright.append(1.0 - 2.0 * (attitude.x**2 + attitude.y**2))

    def take_health(message: DiagnosticArray) -> None:
        pairs = (pair for status in message.status for pair in status.values)
        rates.extend(float(pair.value) for pair in pairs if pair.key == "io_rate_hz" and pair.value)

    with (
        (Path(tempfile.gettempdir()) / f"soak_{robot}.log").open("w") as log,
        own_domain() as domain,
        Client(domain, "soak") as client,
        Process(launch_command(f"{robot}.launch.py", **options), domain, echo=log) as launch,
    ):
        ODOM.subscribe(client.node, take_odometry)
        DIAGNOSTICS.subscribe(client.node, take_health)
        client.until_mode("walking", START_TIMEOUT)
        preferred = give_priority(launch, "mujoco_board")
        drive_curves(client, warm_up)
        rates.clear()
        before = {name: int(client.health[name]) for name in MISSES}
        sizes = [sizes_of(launch)]
        began = time.monotonic()
        while (left := began + duration - time.monotonic()) > 0.0 and launch.alive and client.mode != "fault":
            drive_curves(client, min(left, 30.0))
            sizes.append(sizes_of(launch))
        walked, fault = time.monotonic() - began, client.mode == "fault"
        misses = [int(client.health[name]) - before[name] for name in MISSES]
    exited, fallen = sizes[0].keys() - sizes[-1].keys(), min(upright) < FALLEN
    rows = [
        ["walked after the warm-up [s]", f"{walked:.0f}"],
        ["fall", "yes" if fallen else "no"],
        ["fault", client.health.get("fault", "yes") if fault else "no"],
        ["cycles missed by a whole period, controller and bridge", "{} and {}".format(*misses)],
        ["minimum rate over any 1 s at the wire [Hz]", f"{min(rates):.1f}"],
        ["processes that ended", ", ".join(sorted(exited)) or "0"],
        ["recording [MB]", f"{sum(part.stat().st_size for part in (folder / 'bag').glob('*')) * 1e-6:.0f}"],
        ["SCHED_FIFO of the board", "granted" if preferred else "refused"],
        ["load average at the end", f"{os.getloadavg()[2]:.1f} of {os.cpu_count()} processors"],
    ]
    print(markdown([robot, "measured"], rows), end="\n\n")
    return show_growth(sizes) < MOST_GROWTH and not (fallen or fault or exited)


def show_growth(sizes: list[dict[str, float]]) -> float:
    """Print the table of memory [MB] by process from its sizes in turn; return the largest growth."""
    growth = {name: size - sizes[0].get(name, 0.0) for name, size in sorted(sizes[-1].items())}
    rows = [
        [name, f"{sizes[-1][name]:.1f}", f"{max(each.get(name, 0.0) for each in sizes):.1f}", f"{grown:.1f}"]
        for name, grown in growth.items()
    ]
    print(markdown(["memory (proportional set size) [MB] of", "at the end", "max", "growth after the warm-up"], rows))
    return max(growth.values())


def main() -> int:
    """Soak one robot; return 1 for a fall, a fault, an exit or growth."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", default="aliengo", help="aliengo or a1")
    parser.add_argument("--duration", type=float, default=3600.0, help="seconds after the warm-up")
    parser.add_argument("--params-file", type=Path, help="parameters of the bridge, such as its priority")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return 0 if soak(options.robot, options.duration, Path(folder), options.params_file) else 1


if __name__ == "__main__":
    sys.exit(main())
