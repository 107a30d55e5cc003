"""fcnet collect: experience from simulation."""

import argparse
import sys
from concurrent.futures import as_completed
from pathlib import Path

from msgspec import structs
from tqdm import tqdm

from fcnet_core import counted
from fcnet_core.errors import SimulationError
from fcnet_core.files import Seed, option
from fcnet_core.verbs import STDOUT, add_json, check_json, write_json
from quadruped_sim.collection import Collector, Shards, jobs, load_plan
from quadruped_sim.worker_pool import add_worker_options, worker_pool

SUMMARY = "record simulated walks of an expert, or walks of a policy with the actions the expert would take"
EPILOG = """
Shards are written atomically. An interrupted collection (Ctrl-C) resumes if the same command is run again. The data
depend only on the settings file and the seed, not on the number of processes; other CPUs may round differently.
--ray ADDRESS uses the cores of a Ray cluster whose machines share the folders (docs/scaling.md).

examples:
  fcnet collect --config config/collect/aliengo.yaml --out data/aliengo
  fcnet collect --config config/collect/aliengo.yaml --shards 30 --student runs/aliengo-fcnet-1/best.safetensors \\
                --out data/aliengo-dagger --seed 1
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    plan = "a file, or the name of one in config/collect/"
    parser.add_argument("--config", required=True, type=Path, metavar="YAML", help=plan)
    parser.add_argument("-o", "--out", required=True, type=Path, metavar="DIR", help="data folder to write or continue")
    parser.add_argument("--shards", type=option(Shards), metavar="N", help="number of shards (default: as in the file)")
    student = "let this policy walk, and record the actions that the expert would take in the same states"
    parser.add_argument("--student", type=Path, metavar="FILE", help=student)
    parser.add_argument("--teacher", type=Path, metavar="FILE", help="expert made by `fcnet teach` (default: the trot)")
    parser.add_argument("--seed", type=option(Seed), default=0, metavar="N", help="seed of all randomness (default: 0)")
    add_worker_options(parser)
    add_json(parser, "the new shards with their falls")


def run(args: argparse.Namespace) -> int:
    """Collect the missing shards; return 0 if the folder is complete, 130 if interrupted."""
    check_json(args.json)
    plan = load_plan(args.config)
    if args.shards:
        plan = structs.replace(plan, shards=args.shards)
    collector = Collector(plan, args.out, args.seed, args.student, args.teacher)
    writer, made = collector.writer(), []
    missing = [job for job in jobs(plan, args.seed) if not writer.has(job.index)]
    try:
        with (
            worker_pool(args.workers) as pool,
            tqdm(total=len(missing) * plan.steps, unit="step", unit_scale=True) as bar,
        ):
            for future in as_completed([pool.submit(collector.collect, job) for job in missing]):
                made.append(future.result())
                if not writer.has(made[-1]["shard"]):
                    raise SimulationError(f"a worker's shard is not in {args.out}: machines must share that folder")
                bar.update(plan.steps)
                bar.set_postfix(falls=sum(shard["falls"] for shard in made))
    except KeyboardInterrupt:
        print("fcnet: stopped; finished shards are kept, run the same command again to resume", file=sys.stderr)
        return 130
    write_json({"shards": made}, args.json)
    if args.json != STDOUT:
        held = f"{counted(plan.shards, 'shard')}, {counted(plan.shards * plan.steps, 'step')}"
        print(f"{args.out} holds {held} ({counted(sum(shard['falls'] for shard in made), 'new fall')})")
    return 0
