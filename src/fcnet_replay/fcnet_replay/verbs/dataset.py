"""fcnet dataset: bags become training data; data are merged, split, described, checked, exported and imported."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import msgspec

from fcnet_core import counted
from fcnet_core.errors import FcnetError
from fcnet_core.files import NotNegative, Positive, Seed, option

SUMMARY = "make training data from bags; merge, split, describe, check, export and import data"
EPILOG = """
A dataset is a folder as `fcnet collect` writes it; all of these take and give such folders, and `fcnet train` takes
them together: --data data/aliengo --data data/walks:2. Nothing is ever overwritten, and a new folder appears under
its name only when it is complete. More in docs/datasets.md.

examples:
  fcnet dataset from-bag bags/walk1 bags/walk2 --robot aliengo -o data/walks
  fcnet dataset validate data/walks
  fcnet dataset stats data/walks --against models/aliengo.safetensors
  fcnet dataset merge data/aliengo data/walks -o data/all
  fcnet dataset split data/all --validation 0.1 --seed 0 -o data/parts
  fcnet dataset export data/all -o lerobot/all
  fcnet dataset import lerobot/all -o data/again
"""
MOST_FAULTS = 50  # printed of one folder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    def action(
        name: str, summary: str, do: Callable[[argparse.Namespace], int], count: str | None = "+", data: str = ""
    ) -> argparse.ArgumentParser:
        added = actions.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        added.set_defaults(action=do)
        if data:
            added.add_argument("data", type=Path, nargs=count, metavar="DIR", help=data)
        return added

    from_bag = action("from-bag", "walking sections of bags as episodes", _from_bag)
    add_bag_arguments(from_bag)
    from_bag.add_argument(
        "--before-fault",
        type=option(NotNegative),
        default=1.0,
        metavar="S",
        help="leave out what led to a fault [s] (default: 1.0); `fcnet relabel` makes use of it",
    )
    merge = action("merge", "several datasets as one", _merge, data="data folders of one robot and one rate")
    _add_out(merge)
    summary = "whole episodes, drawn by chance, for training and for validation"
    split = action("split", summary, _split, None, "a data folder")
    _add_out(split)
    split.add_argument("--validation", type=float, default=0.1, metavar="SHARE", help="of the steps (default: 0.1)")
    split.add_argument("--seed", type=option(Seed), default=0, metavar="N", help="of the drawing (default: 0)")
    summary = "sizes, spread of every field, commands covered, targets at limits"
    stats = action("stats", summary, _stats, data="data folders, taken together")
    stats.add_argument("--against", type=Path, metavar="DIR|FILE", help="other data, or a policy: show what drifted")
    stats.add_argument("--entries", action="store_true", help="a line for each entry of the arrays")
    stats.add_argument("--json", action="store_true", help="print all figures as JSON instead")
    summary = "look for everything that can be broken; exit 1 if something is"
    validate = action("validate", summary, _validate, data="data folders")
    validate.add_argument("--robot", metavar="NAME", help="of which robot they must be (default: whichever they name)")
    export = action("export", "the data in the layout of LeRobot (LeRobotDataset v3.0)", _export, None, "a data folder")
    _add_out(export)
    export.add_argument("--format", choices=("lerobot",), default="lerobot", help="the only one so far")
    restore = action("import", "what was exported, as it was before", _import, None, "a folder that `export` wrote")
    _add_out(restore)


def add_bag_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare how bags are read."""
    parser.add_argument("bags", type=Path, nargs="+", metavar="BAG", help="a bag's folder, or one .mcap or .db3 file")
    _add_out(parser)
    parser.add_argument("--robot", metavar="NAME", help="the robot (default: the recorded one)")
    parser.add_argument("--namespace", metavar="NS", help="the robot's namespace (default: the recorded one)")
    parser.add_argument("--topics", type=Path, metavar="YAML", help="where a foreign bag has what, see config/bags/")
    parser.add_argument("--rate", type=option(Positive), default=50.0, metavar="HZ", help="of the policy (default: 50)")
    parser.add_argument(
        "--shortest",
        type=option(NotNegative),
        default=0.5,
        metavar="S",
        help="leave out shorter episodes [s] (default: 0.5)",
    )


def run(args: argparse.Namespace) -> int:
    """Do what was asked; 0 when it is done."""
    action: Callable[[argparse.Namespace], int] = args.action
    return action(args)


def _add_out(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="DIR", help="the new folder")


def _from_bag(args: argparse.Namespace) -> int:
    from fcnet_replay.datasets.from_bag import BagReading, dataset_from_bags

    reading = BagReading(args.robot, args.namespace, args.topics, args.rate, args.shortest, args.before_fault)
    data = dataset_from_bags(args.bags, args.out, reading, print)
    walked = f"{counted(data.steps, 'step')} ({data.steps / args.rate:.1f} s)"
    print(f"wrote {args.out}: {walked} in {counted(data.shards, 'shard')}")
    return 0


def _merge(args: argparse.Namespace) -> int:
    from fcnet_replay.datasets.combine import merge

    data = merge(args.data, args.out)
    print(f"wrote {args.out}: {counted(data.steps, 'step')} in {counted(data.shards, 'shard')}")
    return 0


def _split(args: argparse.Namespace) -> int:
    from fcnet_replay.datasets.combine import split

    for half, data in split(args.data, args.out, args.validation, args.seed).items():
        print(f"wrote {args.out / half}: {counted(data.steps, 'step')} in {counted(data.shards, 'shard')}")
    return 0


def _stats(args: argparse.Namespace) -> int:
    from fcnet_core.learning.dataset import Dataset
    from fcnet_replay.datasets.summary import summarise, summary_lines

    summary = summarise(Dataset(args.data), args.against)
    if args.json:
        print(msgspec.json.format(msgspec.json.encode(summary), indent=1).decode())
    else:
        print("\n".join(summary_lines(summary, args.entries)))
    return 0


def _validate(args: argparse.Namespace) -> int:
    from fcnet_replay.datasets.validation import faults

    broken = 0
    for folder in args.data:
        found = list(islice(faults(folder, args.robot), MOST_FAULTS))
        broken += bool(found)
        print("\n".join(found) or f"{folder} is sound")
        if len(found) == MOST_FAULTS:
            print("there may be more")
    if broken:
        broken_of = f"{broken} of {counted(len(args.data), 'dataset')}"
        print(f"fcnet: {broken_of} {'is' if broken == 1 else 'are'} broken", file=sys.stderr)
    return 1 if broken else 0


def _export(args: argparse.Namespace) -> int:
    _need_pyarrow()
    from fcnet_replay.datasets.lerobot import export_dataset

    steps, episodes = export_dataset(args.data, args.out)
    print(f"wrote {args.out}: {counted(steps, 'step')} in {counted(episodes, 'episode')}")
    return 0


def _import(args: argparse.Namespace) -> int:
    _need_pyarrow()
    from fcnet_replay.datasets.lerobot import import_dataset

    data = import_dataset(args.data, args.out)
    print(f"wrote {args.out}: {counted(data.steps, 'step')} in {counted(data.shards, 'shard')}")
    return 0


def _need_pyarrow() -> None:
    if find_spec("pyarrow") is None:
        raise FcnetError("this needs the Python package pyarrow: `pip install -r requirements/sharing.txt` installs it")
