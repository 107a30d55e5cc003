"""fcnet collect: experience from simulation."""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import Executor, as_completed
from pathlib import Path

from msgspec import structs
from tqdm import tqdm

from fcnet_core import counted
from fcnet_core.errors import SimulationError
from fcnet_core.files import Seed, option
from quadruped_sim.collection import Collector, Job, Shards, jobs, load_plan
from quadruped_sim.worker_pool import add_worker_options, worker_pool

SUMMARY = "collect experience of the expert, or of a policy that the expert corrects, in simulation"
EPILOG = """
Every shard is written whole or not at all. Interrupted at any moment (Ctrl-C), the same command line goes on where it
stopped; the result depends on the file and the seed alone, not on the number of processes or where they run, but for
the rounding of another kind of processor. With --ray ADDRESS the cores of a cluster work, on machines that share the
folders (docs/scaling.md).

examples:
  fcnet collect --config config/collect/aliengo.yaml --out data/aliengo
  fcnet collect --config config/collect/aliengo.yaml --shards 30 --student runs/aliengo-fcnet-1/best.safetensors \\
                --out data/aliengo-dagger --seed 1
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument(
        "--config", required=True, type=Path, metavar="YAML", help="a file, or a name of config/collect/"
    )
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="the data folder to write or continue")
    parser.add_argument("--shards", type=option(Shards), metavar="N", help="how many, instead of the file's")
    parser.add_argument("--student", type=Path, metavar="FILE", help="let this policy drive, label with the expert")
    parser.add_argument("--teacher", type=Path, metavar="FILE", help="the expert: of `fcnet teach` (default: the trot)")
    parser.add_argument("--seed", type=option(Seed), default=0, metavar="N", help="seed of all randomness (default: 0)")
    add_worker_options(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON line a shard instead of a progress bar")


def run(args: argparse.Namespace) -> int:
    """Collect what is missing; 0 when the folder is complete, 130 when interrupted."""
    plan = load_plan(args.config)
    if args.shards:
        plan = structs.replace(plan, shards=args.shards)
    collector = Collector(plan, args.out, args.student, args.teacher)
    writer = collector.writer(args.seed)
    missing = [job for job in jobs(plan, args.seed) if not writer.has(job.index)]
    try:
        with worker_pool(args.workers) as pool:
            falls = _collect(pool, collector, args, missing)
    except KeyboardInterrupt:
        print("fcnet: stopped; what is written stays, the same command line goes on from there", file=sys.stderr)
        return 130
    if not args.json:
        held = f"{counted(plan.shards, 'shard')}, {counted(plan.shards * plan.steps, 'step')}"
        print(f"{args.out} holds {held} ({counted(falls, 'fall')} just now)")
    return 0


def _collect(pool: Executor, collector: Collector, args: argparse.Namespace, missing: list[Job]) -> int:
    steps, writer = collector.plan.steps, collector.writer(args.seed)
    falls = 0
    with tqdm(total=len(missing) * steps, unit="step", unit_scale=True, disable=args.json) as bar:
        futures = {pool.submit(_make, collector, job, args.seed): job for job in missing}
        for future in as_completed(futures):
            fell, seconds = future.result()
            if not writer.has(futures[future].index):
                raise SimulationError(f"a worker's shard is not in {args.out}: machines must share that folder")
            falls += fell
            bar.update(steps)
            bar.set_postfix(falls=falls)
            if args.json:
                job = futures[future]
                facts = {"shard": job.index, "part": job.name, "steps": steps, "falls": fell, "seconds": seconds}
                print(json.dumps(facts), flush=True)
    return falls


def _make(collector: Collector, job: Job, seed: int) -> tuple[int, float]:
    began = time.perf_counter()
    falls = collector.collect(job, collector.writer(seed))
    return falls, round(time.perf_counter() - began, 1)
