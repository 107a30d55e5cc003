"""fcnet recovery: whether a robot that has fallen rights itself, stands up and walks."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import numpy as np
from tqdm import tqdm

from fcnet_core.files import Count, Seed, Workers, option
from fcnet_core.model_file import load_model, shipped_model
from fcnet_core.robot import load_robot
from quadruped_sim.falls import Fall, FallTrial, Outcome
from quadruped_sim.rollout import check_walks_here
from quadruped_sim.worker_pool import worker_pool

SUMMARY = "measure how a robot gets up after falls"
EPILOG = """
A fall is "dropped" from half a metre in any attitude and pose of the joints, or "toppled" by pushes during a walk, on
flat ground and on a slope, heading anywhere. The robot comes to rest with damped joints, rights itself, stands up and
walks for 3 s.

examples:
  fcnet recovery --robot a1
  fcnet recovery --robot aliengo --falls 20 --seed 1
"""
SLOPES = (0.0, 10.0)  # [deg]
IN_TIME = 5.0  # [s]
COLUMNS = (
    "fall | lay on belly, side, back | righted in 5 s | median, 95 %, longest [s] | stood | walked | torque, speed "
    "[share of the limit] | power [W] | turning [rad/s]"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("--robot", default="aliengo", metavar="NAME", help="the robot (default: aliengo)")
    parser.add_argument("--policy", type=Path, metavar="FILE", help="what walks (default: the shipped one)")
    parser.add_argument("--falls", type=option(Count), default=100, metavar="N", help="of each kind (default: 100)")
    parser.add_argument("--seed", type=option(Seed), default=0, metavar="N", help="seed of all randomness (default: 0)")
    parser.add_argument("--processes", type=option(Workers), default=2, metavar="N", help="workers (default: 2)")


def run(args: argparse.Namespace) -> int:
    """Print a line of a Markdown table for each kind of fall; 1 where too few end upright in time."""
    robot = load_robot(args.robot)
    model = load_model(args.policy or shipped_model(robot.name))
    check_walks_here(model, robot)
    kinds = [(fall, degrees) for degrees in SLOPES for fall in get_args(Fall)]
    print(f"| {COLUMNS} |", "|---" * (COLUMNS.count("|") + 1) + "|", sep="\n")
    with worker_pool(args.processes) as pool, tqdm(total=len(kinds) * args.falls, unit="fall") as bar:
        work = {
            kind: [pool.submit(FallTrial(args.robot, model, *kind, args.seed, n).run) for n in range(args.falls)]
            for kind in kinds
        }
        enough = True
        for (fall, degrees), futures in work.items():
            outcomes = []
            for future in futures:
                outcomes.append(future.result())
                bar.update()
            tqdm.write(_row(f"{fall}, {degrees:g} degrees", outcomes))
            enough &= sum(one.righting <= IN_TIME for one in outcomes) >= 0.95 * len(outcomes)
    return 0 if enough else 1


def _row(name: str, outcomes: Sequence[Outcome]) -> str:
    def count(values: Sequence[bool]) -> str:
        return f"{sum(values)} of {len(values)}"

    lay = [one.lay_on.value.split()[-1] for one in outcomes]
    times = [one.righting for one in outcomes if one.righting < math.inf]
    median, most, longest = np.percentile(times, [50, 95, 100]) if times else (math.nan,) * 3
    cells = [
        name,
        ", ".join(str(lay.count(where)) for where in ("belly", "side", "back")),
        count([one.righting <= IN_TIME for one in outcomes]),
        f"{median:.1f}, {most:.1f}, {longest:.1f}",
        count([one.stood for one in outcomes]),
        count([one.walked for one in outcomes]),
        f"{max(one.torque for one in outcomes):.2f}, {max(one.speed for one in outcomes):.2f}",
        f"{max(one.power for one in outcomes):.0f}",
        f"{max(one.rate for one in outcomes):.1f}",
    ]
    return f"| {' | '.join(cells)} |"
