"""Parts that several scripts share: outputs of a table, recorded walks, untrained policies, figures, exit status."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np

from fcnet_core.bench import Pace, ResultTable
from fcnet_core.errors import FcnetError
from fcnet_core.files import Count, check_writable, option, write_whole
from fcnet_core.learning.dataset import Dataset
from fcnet_core.model_file import PolicyModel, card_for_robot
from fcnet_core.policies import PolicyConfig, policy_type, policy_type_of
from fcnet_core.robot import load_robot
from fcnet_replay.verbs import add_source


def run(main: Callable[[], None]) -> None:
    """Run a script; unusable input becomes one sentence and exit status 2."""
    try:
        main()
    except FcnetError as error:
        sys.exit(f"{Path(sys.argv[0]).stem}: {error}")


def parser(docstring: str | None, rounds: int = 0, steps: int = 0, figure: bool = True) -> argparse.ArgumentParser:
    """Return a script's parser with --json, --figure, and --rounds and --steps if it measures durations."""
    made = argparse.ArgumentParser(description=(docstring or "").partition("\n")[0])
    made.add_argument("--json", type=Path, metavar="FILE", help="write the table to FILE")
    if figure:
        made.add_argument("--figure", type=Path, metavar="PNG", help="write the figure to PNG")
    if rounds:
        made.add_argument("--rounds", type=option(Count), default=rounds, metavar="N", help=f"default: {rounds}")
        made.add_argument("--steps", type=option(Count), default=steps, metavar="N", help=f"a round; default: {steps}")
    return made


def pace_of(args: argparse.Namespace) -> Pace:
    """Return the pace that --rounds and --steps ask for; PyTorch gets one thread."""
    import torch

    torch.set_num_threads(1)
    check_writable(args.json, getattr(args, "figure", None))
    return Pace(args.rounds, args.steps)


def write(table: ResultTable, path: Path | None) -> None:
    """Print a table, and write it as JSON if there is a path."""
    print(table.text())
    if path:
        write_whole(path, json.dumps(asdict(table), indent=1).encode())


def markdown(table: ResultTable) -> str:
    """Return a table with its command, conditions and machine."""
    rows = [("", *table.columns), ("---",) * (len(table.columns) + 1)]
    rows += [(label, *cells) for label, cells in table.rows.items()]
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    facts = ", ".join(f"{name} {value}" for name, value in table.machine.items())
    return "\n".join([f"## {table.title}", "", f"    {table.command}", "", *lines, "", f"{table.how}; {facts}.", ""])


def mean_and_range(values: Sequence[float]) -> str:
    """Return a cell: the mean, and the lowest and the highest of several values."""
    if not values:
        return "-"
    mean = f"{sum(values) / len(values):.2f}"
    return mean if len(values) == 1 else f"{mean} ({min(values):.2f} to {max(values):.2f})"


def untrained(config: PolicyConfig) -> PolicyModel:
    """Return a policy with random weights, whose step takes as long as a trained one's."""
    import torch

    from fcnet_core.policies.export import exported_step

    kind = policy_type(policy_type_of(config))
    torch.manual_seed(0)
    network = kind.part(kind.network)(config)
    return PolicyModel(
        card_for_robot(load_robot("aliengo"), config),
        {name: weight.detach().numpy().copy() for name, weight in network.state_dict().items()},
        {
            "observation_mean": np.zeros(config.observation, dtype=np.float32),
            "observation_std": np.ones(config.observation, dtype=np.float32),
            "action_mean": np.zeros(config.action, dtype=np.float32),
            "action_scale": np.full(config.action, 0.3, dtype=np.float32),
        },
        b"" if kind.numba else exported_step(config),
    )


def add_data(options: argparse.ArgumentParser) -> None:
    """Declare the source of `recorded`, and the options with which a bag is read."""
    options.add_argument("source", type=Path, metavar="DATA_OR_BAG", help="a folder of data, or a bag")
    add_source(options, rate=True)


@contextmanager
def recorded(args: argparse.Namespace) -> Iterator[Dataset]:
    """Yield the data of a folder, or of the walking sections of a bag. Raises FcnetError for other paths."""
    source: Path = args.source
    if (source / "manifest.json").exists():
        yield Dataset(source)
        return
    from fcnet_replay.datasets.from_bag import BagReading, dataset_from_bags

    if not source.exists():
        raise FcnetError(f"there is no data folder and no bag {source}")
    with TemporaryDirectory() as folder:
        reading = BagReading(args.robot, args.namespace, args.topics, args.rate)
        dataset_from_bags([source], Path(folder) / "data", reading)
        yield Dataset(Path(folder) / "data")


def claim_folder(folder: Path, settings: msgspec.Struct) -> None:
    """Write study.json, or raise FcnetError if the folder holds that of a study with other settings."""
    path = folder / "study.json"
    if not path.exists():
        write_whole(path, msgspec.json.format(msgspec.json.encode(settings), indent=1))
        return
    found = read_json(path, type(settings))
    names = [name for name in settings.__struct_fields__ if getattr(found, name) != getattr(settings, name)]
    if names:
        raise FcnetError(f"{folder} holds a study with another {', '.join(names)}; choose another folder")


def read_json(path: Path, kind: Any) -> Any:
    """Read a result file. Raises FcnetError if it is damaged."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except ValueError as error:
        raise FcnetError(f"{path} is damaged ({error}); delete it, and the study repeats that job") from error
