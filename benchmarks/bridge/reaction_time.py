"""Measures how long it takes from a process that is killed (-9) or stopped (SIGSTOP) to damping on the wire.

A robot that walks in MuJoCo; the board is a process of its own and takes the kernel's times of arrival. Run it in a
shell after `. env.sh`, on an otherwise idle machine; 50 trials of all cases take half an hour:
    python benchmarks/bridge/reaction_time.py --trials 50 [--robot aliengo] [--cases "io killed,controller stopped"]
Exit code 1: a trial took longer than LONGEST, or a joint was stiff again before a request to stand up.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
from board_process import BoardProcess, WireLog
from common import table, walking
from fault_rig import FaultRig
from ros_harness import Client, own_domain

from fcnet_core.robot import Robot, load_robot

LONGEST = 0.1  # [s]
OBSERVED = 0.7  # [s] after the process was killed or stopped
STOPPED = 0.5  # [s]
PROCESSES = ("bridge", "io", "controller")
CASES = (*(f"{process} {what}" for process in PROCESSES for what in ("killed", "stopped")), "launch killed")


def reaction(log: WireLog, began: float) -> tuple[float, bool]:
    """Return the seconds from `began` to the end of stiffness, infinite without a command, and whether it came back."""
    later = log.arrival > began
    times, stiff = log.arrival[later], log.largest_stiffness[later] > 0.0
    soft = np.flatnonzero(~stiff)
    if not len(soft):
        return np.inf, bool(stiff.any())
    return float(times[soft[0]] - began), bool(stiff[soft[0] :].any())


def measure(rig: FaultRig, process: str, number: signal.Signals) -> tuple[float, bool]:
    """Run one trial; return its `reaction`."""
    rig.prepare("walking")
    time.sleep(0.2 * np.random.default_rng().random())
    victim = rig.process_id(process)
    rig.board.take()
    began = time.monotonic()
    os.kill(victim, number)
    time.sleep(STOPPED)
    if number is signal.SIGSTOP:
        os.kill(victim, signal.SIGCONT)
    time.sleep(max(0.0, OBSERVED - STOPPED))
    return reaction(rig.board.take(), began)


def measure_launch(robot: str, board: BoardProcess, domain: int, client: Client) -> tuple[float, bool]:
    """Run one trial: only the launch is killed; its programs must end as well, and the joints be damped."""
    board.reset_body()
    with walking(robot, board, domain, client) as launch:
        client.drive(1.0, vx=0.3)
        board.take()
        began = time.monotonic()
        os.kill(launch.process.pid, signal.SIGKILL)
        client.drive(OBSERVED, vx=0.3)
        with suppress(AssertionError):
            client.until(lambda: not launch.survivors(), "the end of the launch's programs", 15.0)
        time_taken, again = reaction(board.take(), began)
        return (np.inf, again) if launch.survivors() else (time_taken, again)


def run(robot: Robot, cases: list[str], trials: int) -> dict[str, list[tuple[float, bool]]]:
    """Run all trials of the cases."""
    found: dict[str, list[tuple[float, bool]]] = {case: [] for case in cases}
    path = Path(tempfile.gettempdir()) / f"reaction_time_{robot.name}.log"
    others = [case for case in cases if not case.startswith("launch")]
    if others:
        with (
            path.open("w") as log,
            own_domain() as domain,
            FaultRig(robot, domain, log) as rig,
        ):
            for trial in range(trials):
                for case in others:
                    process, what = case.split()
                    found[case].append(measure(rig, process, signal.SIGKILL if what == "killed" else signal.SIGSTOP))
                    print(f"{trial + 1:>3} {case:<20} {1e3 * found[case][-1][0]:6.1f} ms", file=sys.stderr, flush=True)
    if "launch killed" in cases:
        with BoardProcess(robot.name) as board, own_domain() as domain, Client(domain, "reaction_time") as client:
            for trial in range(trials):
                found["launch killed"].append(measure_launch(robot.name, board, domain, client))
                print(f"{trial + 1:>3} launch killed {1e3 * found['launch killed'][-1][0]:6.1f} ms", file=sys.stderr)
    return found


def main() -> int:
    """Measure and print; return 1 if a trial is too slow or stiff again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", default="aliengo", help="aliengo or a1")
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--cases", default=",".join(CASES), help="separated by commas (%(default)s)")
    options = parser.parse_args()
    found = run(load_robot(options.robot), options.cases.split(","), options.trials)
    rows = []
    for case, trials in found.items():
        times = 1e3 * np.array([time_taken for time_taken, _again in trials])
        again = sum(again for _time, again in trials)
        p50 = np.sort(times)[len(times) // 2]  # not interpolated: a time may be infinite
        rows.append([case, str(len(times)), f"{p50:.1f}", f"{times.max():.1f}", str(again)])
    print(f"{options.robot}: from the signal to damping on the wire\n")
    print(table(["case", "trials", "p50 [ms]", "max [ms]", "stiff again"], rows))
    good = all(time_taken <= LONGEST and not again for trials in found.values() for time_taken, again in trials)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
