"""fcnet dataset: make datasets from bags; merge, split, describe, check and export datasets."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from fcnet_core import counted
from fcnet_core.errors import FcnetError
from fcnet_core.files import NotNegative, Seed, option
from fcnet_core.verbs import STDOUT, add_json, check_json, write_json
from fcnet_replay.verbs import add_source

if TYPE_CHECKING:
    from fcnet_core.learning.dataset import DatasetWriter

SUMMARY = "make datasets from bags; merge, split, describe, check and export datasets"
EPILOG = """
A dataset is a folder in the format of `fcnet collect`. `fcnet train` accepts several: --data data/aliengo --data
data/walks:2. Existing folders are never overwritten. New folders are written to a temporary name and renamed when
complete. See docs/datasets.md.

examples:
  fcnet dataset from-bag bags/walk1 bags/walk2 --robot aliengo -o data/walks
  fcnet dataset validate data/walks
  fcnet dataset stats data/walks --against models/aliengo.safetensors
  fcnet dataset merge data/aliengo data/walks -o data/all
  fcnet dataset split data/all --validation 0.1 --seed 0 -o data/parts
  fcnet dataset export data/all -o lerobot/all
"""
Action = Callable[[argparse.Namespace], int]
MOST_FAULTS = 50  # printed for one folder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    def action(name: str, do: Action, summary: str, data: str = "") -> argparse.ArgumentParser:
        added = actions.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        added.set_defaults(action=do)
        if data:
            count = None if data == "dataset" else "+"
            added.add_argument("data", type=Path, nargs=count, metavar="DIR", help=data)
        return added

    from_bag = action("from-bag", _from_bag, "make a dataset of the walking sections of bags")
    add_bag_arguments(from_bag)
    fault = "leave out the last S seconds before a fault (default: 1.0); `fcnet relabel` keeps and labels them"
    from_bag.add_argument("--before-fault", type=option(NotNegative), default=1.0, metavar="S", help=fault)
    _add_out(action("merge", _merge, "merge several datasets into one", "datasets of one robot and one rate"))
    summary = "split a dataset into training and validation, by whole episodes drawn at random"
    split = action("split", _split, summary, "dataset")
    _add_out(split)
    shares = "fraction of the steps for validation (default: 0.1)"
    split.add_argument("--validation", type=float, default=0.1, metavar="SHARE", help=shares)
    split.add_argument("--seed", type=option(Seed), default=0, metavar="N", help="seed of the split (default: 0)")
    summary = "print sizes, statistics of every field, the coverage of the commands, and how many targets are at limits"
    stats = action("stats", _stats, summary, "datasets, described together")
    against = "report how far the observations differ from the training data of this model file"
    stats.add_argument("--against", type=Path, metavar="MODEL", help=against)
    add_json(stats, "all figures")
    action("validate", _validate, "check datasets for faults; exit 1 if there are any", "datasets")
    _add_out(action("export", _export, "write a dataset as LeRobotDataset v3.0", "dataset"))


def add_bag_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the bags, the output folder and the options for reading bags."""
    bags = "folder of a bag, or one .mcap, .db3 or .bag file"
    parser.add_argument("bags", type=Path, nargs="+", metavar="BAG", help=bags)
    _add_out(parser)
    add_source(parser, rate=True)


def run(args: argparse.Namespace) -> int:
    """Run the action; return its exit status."""
    return int(args.action(args))


def _add_out(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="DIR", help="new folder")


def _from_bag(args: argparse.Namespace) -> int:
    from fcnet_replay.datasets.from_bag import BagReading, dataset_from_bags

    reading = BagReading(args.robot, args.namespace, args.topics, args.rate, args.before_fault)
    return _wrote(args.out, dataset_from_bags(args.bags, args.out, reading))


def _merge(args: argparse.Namespace) -> int:
    from fcnet_replay.datasets.combine import merge

    return _wrote(args.out, merge(args.data, args.out))


def _split(args: argparse.Namespace) -> int:
    from fcnet_replay.datasets.combine import split

    for half, data in split(args.data, args.out, args.validation, args.seed).items():
        _wrote(args.out / half, data)
    return 0


def _stats(args: argparse.Namespace) -> int:
    from fcnet_core.learning.dataset import Dataset
    from fcnet_replay.datasets.summary import summarise, summary_lines

    check_json(args.json)
    summary = summarise(Dataset(args.data), args.against)
    write_json(summary, args.json)
    if args.json != STDOUT:
        print("\n".join(summary_lines(summary)))
    return 0


def _validate(args: argparse.Namespace) -> int:
    from fcnet_replay.datasets.validation import faults

    broken = 0
    for folder in args.data:
        found = list(islice(faults(folder), MOST_FAULTS))
        broken += bool(found)
        print("\n".join(found) or f"{folder} is sound")
        if len(found) == MOST_FAULTS:
            print("there may be more")
    if broken:
        print(f"fcnet: of {counted(len(args.data), 'dataset')} {broken} broken", file=sys.stderr)
    return 1 if broken else 0


def _export(args: argparse.Namespace) -> int:
    if find_spec("pyarrow") is None:
        raise FcnetError("this needs the Python package pyarrow: `pip install -r requirements/sharing.txt` installs it")
    from fcnet_replay.datasets.lerobot import export_dataset

    steps, episodes = export_dataset(args.data, args.out)
    print(f"wrote {args.out}: {counted(steps, 'step')} in {counted(episodes, 'episode')}")
    return 0


def _wrote(folder: Path, data: DatasetWriter) -> int:
    print(f"wrote {folder}: {counted(data.steps, 'step')} in {counted(data.shards, 'shard')}")
    return 0
