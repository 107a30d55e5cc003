"""fcnet standing: whether a robot stands up and lies down wherever it lies."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence

import numpy as np
from tqdm import tqdm

from fcnet_core.errors import SimulationError
from fcnet_core.files import Count, Seed, Workers, option
from fcnet_core.robot import load_robot
from quadruped_sim.standing import GROUNDS, Start, StartTrial
from quadruped_sim.worker_pool import worker_pool

SUMMARY = "measure how a robot stands up and lies down on every terrain"
EPILOG = """
The robot lies on its belly on the incline, the steps or the boxes, damped, heading anywhere. It stands up with the
code that the controller runs, stands for 2 s, lies down and is damped again.

examples:
  fcnet standing --robot a1
  fcnet standing --robot aliengo --terrains stairs_up,stairs_down --starts 20 --seed 1
"""
COLUMNS = (
    "terrain | stood and lay | sag: median, largest [rad] | slip, slide [mm] | tilt [rad] | joint error [rad] | "
    "target rate [rad/s] | torque [share of the limit]"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("--robot", default="aliengo", metavar="NAME", help="the robot (default: aliengo)")
    parser.add_argument("--terrains", default="all", metavar="NAME,...", help="which terrains (default: all)")
    parser.add_argument("--starts", type=option(Count), default=100, metavar="N", help="on each (default: 100)")
    parser.add_argument("--seed", type=option(Seed), default=0, metavar="N", help="seed of all randomness (default: 0)")
    parser.add_argument("--processes", type=option(Workers), default=2, metavar="N", help="workers (default: 2)")


def run(args: argparse.Namespace) -> int:
    """Print a line of a Markdown table for each terrain; 1 where a start fails."""
    robot = load_robot(args.robot).name
    grounds = list(GROUNDS) if args.terrains == "all" else args.terrains.split(",")
    if unknown := sorted(set(grounds) - set(GROUNDS)):
        raise SimulationError(f"there is no terrain {unknown[0]!r}; choose from {', '.join(GROUNDS)}")
    print(f"| {COLUMNS} |", "|---" * (COLUMNS.count("|") + 1) + "|", sep="\n")
    failures: Counter[str] = Counter()
    with worker_pool(args.processes) as pool, tqdm(total=len(grounds) * args.starts, unit="start") as bar:
        work = {
            ground: [pool.submit(StartTrial(args.robot, ground, args.seed, n).run) for n in range(args.starts)]
            for ground in grounds
        }
        for ground, futures in work.items():
            starts = []
            for future in futures:
                starts.append(future.result())
                bar.update()
            failures += Counter(f"{ground}: {start.failure}" for start in starts if start.failure)
            tqdm.write(_row(ground, starts))
    for failure, count in failures.items():
        print(f"{robot}, {failure} ({count} of {args.starts})")
    return 1 if failures else 0


def _row(ground: str, starts: Sequence[Start]) -> str:
    def most(name: str) -> float:
        values = [getattr(start, name) for start in starts]
        return float(np.nanmax(values)) if np.isfinite(values).any() else float("nan")

    stood = [start.sag for start in starts if np.isfinite(start.sag)]
    cells = [
        ground,
        f"{sum(not start.failure for start in starts)} of {len(starts)}",
        f"{np.median(stood) if stood else float('nan'):.3f}, {most('sag'):.3f}",
        f"{1e3 * most('slip'):.0f}, {1e3 * most('slide'):.0f}",
        f"{most('tilt'):.2f}",
        f"{most('error'):.2f}",
        f"{most('rate'):.1f}",
        f"{most('torque'):.2f}",
    ]
    return f"| {' | '.join(cells)} |"
