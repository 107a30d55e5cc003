"""fcnet relabel: expert labels for recorded runs."""

import argparse
from functools import partial

from fcnet_replay.verbs.dataset import add_bag_arguments

SUMMARY = "turn bags of failed runs into training data labelled by the expert"
EPILOG = """
Every observation up to the fault is labelled with the target that the expert computes for it in simulation, as in a
DAgger round (docs/training.md). States for which the expert has no target, such as a robot on its side, are left out
and counted. docs/datasets.md describes the approximations and their errors.

example:
  fcnet relabel bags/fall --robot aliengo -o data/fall
  fcnet train --config config/train/dagger.yaml --data data/aliengo --data data/fall:5 \\
              --init models/aliengo.safetensors
"""
add_arguments = add_bag_arguments


def run(args: argparse.Namespace) -> int:
    """Relabel; return 0 if the new folder is written."""
    from fcnet_replay.datasets.from_bag import BagReading, dataset_from_bags
    from quadruped_sim.relabel import expert_labels

    reading = BagReading(args.robot, args.namespace, args.topics, args.rate, before_fault=0.0)
    label = partial(expert_labels, period=1.0 / reading.rate)
    source = "relabel", "the trotting expert's targets"
    data = dataset_from_bags(args.bags, args.out, reading, label, source)
    print(f"wrote {args.out}: {data.steps:,} steps ({data.steps / args.rate:.1f} s) in {data.shards} shards")
    return 0
