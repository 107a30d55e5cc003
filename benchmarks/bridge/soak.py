"""Walks a simulated robot for an hour behind its bridge, with recording and monitor, and counts what must not happen.

`ros2 launch ... backend:=desk record:=true monitor:=true`, driven by cmd_vel in wide curves: falls, faults, cycles that
were missed by a whole period, and how much each process's memory grows after a warm-up. Where SCHED_FIFO is permitted,
the board that is simulated on the same computer gets it: a real one shares no processor with the bridge. Pauses in
which not even a sleeping process of the highest priority ran are watched beside it (pauses.py): what falls into one is
counted apart. After a fault the robot is reset as an operator would, and walks on. Run it in a shell after `. env.sh`,
on an otherwise idle machine; the bag takes about 4 GB an hour and is removed at the end:
    python benchmarks/bridge/soak.py [--duration 3600] [--robot aliengo] [--params-file config/bridges/real_time.yaml]
Exit code 1: a fall, a fault or a missed cycle that no pause of the computer explains, or a process that grew by
MOST_GROWTH.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from fault_matrix import table
from nav_msgs.msg import Odometry
from pauses import PAUSE, PauseWatch
from std_msgs.msg import String

from fcnet_core.names import CONTROLLER
from fcnet_ros.testing import Client, Process, own_domain
from fcnet_ros.topics import DIAGNOSTICS, MODE, ODOM
from unitree_lowlevel.codec import PERIOD

WARM_UP = 300.0  # [s] of walking, at most a quarter of the duration; buffers reach their sizes
CURVE = 5.0  # [s] between two changes of direction
START_TIMEOUT = 120.0  # [s]
FALLEN = 0.5  # cosine of the trunk's tilt
CYCLES = {"deadline_misses": 0.02, "io_misses": PERIOD}  # [s] of controller and bridge, by the counter of misses
DELAY = 0.1  # [s] of a diagnostics message
EXPLAINS = 0.02  # [s] a pause of the computer that may end in a fault
BRING_BACK = 60.0  # [s]
MOST_GROWTH = 5.0  # [MB]
PRIORITY = 60  # SCHED_FIFO of the board, above the bridge's 40
NAMES = {  # in command lines, the first that fits
    "bag record": "recorder", "ros2 launch": "launch", "io_process": "I/O process", "mujoco_board": "simulated board",
    "_bridge/bridge": "bridge", "fcnet_controller/controller": "controller", "monitor": "monitor",
    "teleop_joy": "joystick",
}  # fmt: skip
PAGE = """# Soak

An {robot} walked {walked:.0f} s in MuJoCo behind its bridge (`backend:=desk`), after {warm_up:.0f} s of warm-up, driven
by cmd_vel in wide curves, with recording ({recorded:.0f} MB) and monitor: `make soak` (benchmarks/bridge/soak.py).
The simulated board {board} SCHED_FIFO, the programs' parameters were {parameters}. Load average of the {processors}
processors at the end: {load:.1f}.

{seen}

{grown}
"""


class Observer:
    """What the topics say: `falls`; times of `faults` [s, time.monotonic]; `misses`: between which two diagnostics a
    counter rose, and by how much, by name; `odometry` messages.
    """

    def __init__(self, client: Client) -> None:
        self.falls = self.odometry = 0
        self.faults: list[float] = []
        self.misses: dict[str, list[tuple[float, float, int]]] = {name: [] for name in CYCLES}
        self.least_rate: dict[str, float] = {}  # [Hz]
        self._counters: dict[str, tuple[float, int]] = {}  # time and count of the last diagnostics
        self._upright = True
        ODOM.subscribe(client.node, self._take_odometry)
        DIAGNOSTICS.subscribe(client.node, self._take_health)
        MODE.of(CONTROLLER).subscribe(client.node, self._take_mode)

    def begin(self) -> None:
        """Forget what was before."""
        self.falls, self.faults = 0, []
        self.misses = {name: [] for name in CYCLES}
        self.least_rate.clear()

    def unexplained(self, name: str, watch: PauseWatch) -> int:
        """Missed cycles beyond those that fell into pauses of the computer."""
        return sum(
            max(0, count - watch.lost(since - DELAY, until, CYCLES[name])) for since, until, count in self.misses[name]
        )

    def _take_odometry(self, message: Odometry) -> None:
        attitude = message.pose.pose.orientation
        upright = 1.0 - 2.0 * (attitude.x**2 + attitude.y**2) > FALLEN
        self.falls += self._upright and not upright
        self._upright = upright
        self.odometry += 1

    def _take_health(self, message: DiagnosticArray) -> None:
        now = time.monotonic()
        for status in message.status:
            values = {pair.key: pair.value for pair in status.values}
            for name in CYCLES.keys() & values.keys():
                count = int(values[name])
                since, before = self._counters.get(name, (now, count))
                if count > before:
                    self.misses[name].append((since, now, count - before))
                self._counters[name] = now, count
            if rate := values.get("io_rate_hz"):
                self.least_rate["io_rate_hz"] = min(float(rate), self.least_rate.get("io_rate_hz", np.inf))

    def _take_mode(self, message: String) -> None:
        if message.data == "fault":
            self.faults.append(time.monotonic())


def memory(launch: Process) -> dict[str, float]:
    """Proportional set size [MB] of each process of the launch by name, or resident size where that is not readable."""
    found: dict[str, float] = {}
    count: Counter[str] = Counter()
    for process, line in launch.survivors().items():
        name = next((name for part, name in NAMES.items() if part in line), line.split("/")[-1][:40])
        count[name] += 1
        try:
            text = Path(f"/proc/{process}/smaps_rollup").read_text()
            size = next(int(row.split()[1]) for row in text.splitlines() if row.startswith("Pss:"))
        except (OSError, StopIteration):
            continue
        found[f"{name} {count[name]}" if count[name] > 1 else name] = size * 1024e-6
    return found


def give_priority(launch: Process, part: str) -> bool:
    """Give the process with `part` in its command line SCHED_FIFO; false where that is not permitted."""
    for process, line in launch.survivors().items():
        if part in line:
            try:
                os.sched_setscheduler(process, os.SCHED_FIFO, os.sched_param(PRIORITY))
            except PermissionError:
                return False
    return True


@dataclass(frozen=True)
class Walk:
    """What was seen after the warm-up."""

    duration: float  # [s]
    warm_up: float  # [s]
    falls: int
    faults: int
    own_faults: int  # without a pause of the computer just before
    missed: dict[str, int]  # cycles by counter
    unexplained: dict[str, int]  # of them those beyond pauses of the computer
    least_rate: float  # [Hz] at the wire, of a second
    pauses: list[float]  # [s] of the computer
    permitted: bool  # to watch them with the highest priority
    preferred: bool  # the board had SCHED_FIFO
    recorded: float  # [MB]
    memory: list[dict[str, float]]  # [MB] by process: first after the warm-up, last at the end

    @property
    def ended(self) -> set[str]:
        """Processes that are gone."""
        return self.memory[0].keys() - self.memory[-1].keys()

    @property
    def growth(self) -> dict[str, float]:
        """Of each process's memory [MB]."""
        return {name: size - self.memory[0].get(name, 0.0) for name, size in self.memory[-1].items()}

    @property
    def well(self) -> bool:
        """Whether nothing happened that must not."""
        seen = self.falls or self.own_faults or any(self.unexplained.values()) or self.ended
        return not seen and max(self.growth.values()) < MOST_GROWTH


def soak(robot: str, duration: float, folder: Path, params_file: Path | None) -> Walk:
    """Walk for so long [s] after a warm-up."""
    command = [
        "ros2", "launch", "fcnet_controller", f"{robot}.launch.py", "backend:=desk", "record:=true",
        f"bag:={folder / 'bag'}", "monitor:=true", "monitor_port:=0",
        *([f"params_file:={params_file}"] if params_file else []),
    ]  # fmt: skip
    warm_up = min(WARM_UP, 0.25 * duration)
    with (
        (Path(tempfile.gettempdir()) / f"soak_{robot}.log").open("w") as log,
        own_domain() as domain,
        Client(domain, "soak") as client,
        Process(command, domain, echo=log) as launch,
        closing(PauseWatch()) as watch,
    ):
        observer = Observer(client)
        client.until_mode("walking", START_TIMEOUT)
        preferred = give_priority(launch, "mujoco_board")
        drive(client, warm_up)
        observer.begin()
        sizes = [memory(launch)]
        began = time.monotonic()
        while (left := began + duration - time.monotonic()) > 0.0 and launch.alive:
            drive(client, min(left, 30.0))
            if client.mode == "fault":
                walk_again(client, robot)
            sizes.append(memory(launch))
        if not observer.odometry:
            raise RuntimeError("no odometry arrived: falls could not be seen")
        return Walk(
            duration=time.monotonic() - began,
            warm_up=warm_up,
            falls=observer.falls,
            faults=len(observer.faults),
            own_faults=sum(max(watch.durations(at - 0.5, at), default=0.0) < EXPLAINS for at in observer.faults),
            missed={name: sum(count for *_times, count in observer.misses[name]) for name in CYCLES},
            unexplained={name: observer.unexplained(name, watch) for name in CYCLES},
            least_rate=observer.least_rate.get("io_rate_hz", 0.0),
            pauses=watch.durations(began),
            permitted=watch.permitted,
            preferred=preferred,
            recorded=sum(part.stat().st_size for part in (folder / "bag").glob("*")) * 1e-6,
            memory=sizes,
        )


def page_of(walk: Walk, robot: str, params_file: Path | None) -> str:
    """Markdown with all that was seen."""
    rows = [
        ["falls", str(walk.falls)],
        ["faults; without a pause of the computer just before", f"{walk.faults}; {walk.own_faults}"],
        *(
            [
                f"cycles missed by a whole period, {program}; beyond those in pauses of the computer",
                f"{walk.missed[name]}; {walk.unexplained[name]}",
            ]
            for program, name in (("controller", "deadline_misses"), ("bridge", "io_misses"))
        ),
        [
            f"pauses of the computer of more than {1e3 * PAUSE:g} ms{'' if walk.permitted else ' (or of other work)'}",
            f"{len(walk.pauses)}, together {sum(walk.pauses):.2f} s, "
            f"the longest {1e3 * max(walk.pauses, default=0.0):.0f} ms",
        ],
        ["least rate of a second at the wire [Hz]", f"{walk.least_rate:.1f}"],
        ["processes that ended", ", ".join(sorted(walk.ended)) or "0"],
    ]
    processes = [
        [
            name,
            *(
                f"{value:.1f}"
                for value in (
                    walk.memory[0].get(name, 0.0),
                    size,
                    max(sizes.get(name, 0.0) for sizes in walk.memory),
                    walk.growth[name],
                )
            ),
        ]
        for name, size in sorted(walk.memory[-1].items())
    ]
    columns = ["memory (proportional set size) [MB] of", "after the warm-up", "at the end", "largest", "growth"]
    parameters = f"those of {params_file}" if params_file else "the defaults"
    return PAGE.format(
        robot=robot,
        walked=walk.duration,
        warm_up=walk.warm_up,
        recorded=walk.recorded,
        board="had" if walk.preferred else "was refused",
        parameters=parameters,
        load=os.getloadavg()[2],
        processors=os.cpu_count(),
        seen=table(["", "measured"], rows),
        grown=table(columns, processes),
    )


def walk_again(client: Client, robot: str) -> None:
    """Leave a fault as an operator would."""
    if client.fault:
        client.call(f"{robot}_bridge/reset")
    for request, mode in (("reset", "passive"), ("stand_up", "standing"), ("walk", "walking")):
        client.until(lambda name=request: client.call(f"controller/{name}").success, request, BRING_BACK)  # type: ignore[misc]
        client.until_mode(mode, BRING_BACK)


def drive(client: Client, duration: float) -> None:
    """Drive curves to either side in turn for so long [s]."""
    end, side = time.monotonic() + duration, 1
    while (left := end - time.monotonic()) > 0.0:
        client.drive(min(CURVE, left), vx=0.5, yaw_rate=0.4 * side)
        side = -side


def main() -> int:
    """Soak one robot; 1 where something was not well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", default="aliengo", help="aliengo or a1")
    parser.add_argument("--duration", type=float, default=3600.0, help="seconds after the warm-up")
    parser.add_argument("--folder", type=Path, help="where the bag is written (default: a temporary folder)")
    parser.add_argument("--params-file", type=Path, help="parameters of the bridge, such as its priority")
    parser.add_argument("--markdown", type=Path, help="file to write")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        walk = soak(options.robot, options.duration, Path(folder), options.params_file)
    page = page_of(walk, options.robot, options.params_file)
    print(page)
    if options.markdown:
        options.markdown.write_text(page)
    return 0 if walk.well else 1


if __name__ == "__main__":
    sys.exit(main())
