"""fcnet train: a policy from recorded behaviour."""

from __future__ import annotations

import argparse
import json
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from fcnet_core import FcnetError
from fcnet_core.files import check_writable
from fcnet_core.model_file import load_model, save_model

if TYPE_CHECKING:
    from fcnet_core.learning.config import TrainConfig
    from fcnet_core.learning.processes import Processes
    from fcnet_core.learning.trainer import Progress

OUT_OF_MEMORY = ("allocate memory", "out of memory")  # of the processor's, of a GPU's
INTERRUPTED = 130
SUMMARY = "train a policy to imitate recorded behaviour"
EPILOG = """
A run is defined by its configuration, its data and its seed: whoever repeats it gets the same policy, on a slow
machine or a fast one. It writes a checkpoint now and then and when it is interrupted (Ctrl-C); the same command line
with --resume continues it as if nothing had happened. When the policy is written, the checkpoint is removed.

On many processes, which share every batch (docs/scaling.md):
  torchrun --nproc-per-node=2 -m fcnet_core.learning CONFIG --data DIR --out FILE

The policy accepts the commands that its data hold, its envelope: `fcnet info` shows it.

example:
  fcnet collect --config config/collect/aliengo.yaml --out data/aliengo
  fcnet train --config config/train/imitation.yaml --data data/aliengo --out models/aliengo.safetensors

another round, in which newer data count three times as much:
  fcnet train --config config/train/dagger.yaml --data data/aliengo --data data/aliengo-dagger:2 \\
              --init models/aliengo.safetensors --out models/aliengo-2.safetensors
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("--config", required=True, type=Path, metavar="YAML", help="settings, see config/train/")
    parser.add_argument(
        "--data",
        action="append",
        metavar="DIR[:WEIGHT]",
        help="a folder that `fcnet collect` wrote; repeat for several; a step of a folder with weight 2 is drawn twice"
        " as often as one with weight 1 (default: the configuration's)",
    )
    parser.add_argument("--out", required=True, type=Path, metavar="FILE", help="the policy to write (.safetensors)")
    parser.add_argument("--init", type=Path, metavar="FILE", help="start from this policy instead of random weights")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--steps", type=int, metavar="N", help="optimiser steps, instead of the configuration's length")
    length.add_argument(
        "--epochs", type=float, metavar="N", help="passes over the data, instead of the configuration's"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="seed, instead of the configuration's")
    parser.add_argument("--threads", type=int, metavar="N", help="processor cores, instead of the configuration's")
    parser.add_argument("--checkpoint", type=Path, metavar="FILE", help="default: runs/<name of the policy>.ckpt")
    parser.add_argument("--resume", action="store_true", help="continue the interrupted run of the same command line")
    parser.add_argument("--json", action="store_true", help="print JSON lines instead of a progress bar")


def run(args: argparse.Namespace) -> int:
    """Train; 0 when the policy is written, 130 when interrupted with a checkpoint to resume from."""
    try:
        from fcnet_core.learning.processes import joined
    except ModuleNotFoundError as error:
        print(f"fcnet: training needs the Python package {error.name}; install requirements/train.txt", file=sys.stderr)
        return 2

    with joined() as processes:
        return _train(args, processes)


def _train(args: argparse.Namespace, processes: Processes) -> int:
    from fcnet_core.learning.config import load_train_config
    from fcnet_core.learning.imitation import Imitation

    is_first = processes.rank == 0
    if args.out.suffix != ".safetensors":
        raise FcnetError(f"the name of the policy, {args.out}, must end in .safetensors")
    config = _overridden(load_train_config(args.config), args)
    checkpoint: Path = args.checkpoint or Path("runs") / f"{args.out.stem}.ckpt"
    if is_first and checkpoint.exists() and not args.resume:
        raise FcnetError(
            f"{checkpoint} holds an unfinished run; continue it with --resume, or delete it to start from the beginning"
        )
    if is_first:
        check_writable(args.out, checkpoint)
    try:
        imitation = Imitation(config, load_model(args.init) if args.init else None, processes)
        trainer = imitation.trainer
        if args.resume:
            trainer.restore(checkpoint)
        with _reports(trainer.progress, args.json, is_first) as report, _stop_on_signal() as stop:
            finished = trainer.run(report, stop, checkpoint)
    except (MemoryError, RuntimeError) as error:
        if not (
            isinstance(error, MemoryError)
            or isinstance(error.__context__, MemoryError)  # torch.save stumbles over it
            or any(words in str(error) for words in OUT_OF_MEMORY)
        ):
            raise
        raise FcnetError(
            f"this computer has too little memory for batch {config.batch}, crop {config.crop} and a network of"
            f" {config.policy_config.parameters:,} parameters; make one of them smaller"
        ) from error
    if not is_first:
        return 0 if finished else INTERRUPTED
    if not finished:
        step = trainer.progress.step
        print(f"fcnet: stopped after step {step}; {checkpoint} is written, add --resume to continue", file=sys.stderr)
        return INTERRUPTED
    model = imitation.policy(shlex.join(["fcnet", *sys.argv[1:]]))
    save_model(model, args.out)
    checkpoint.unlink(missing_ok=True)
    held_out = trainer.progress.held_out_error
    if args.json:
        print(json.dumps({"model": str(args.out), "fingerprint": model.fingerprint, "held_out_error": held_out}))
    else:
        print(f"wrote {args.out}" + ("" if held_out is None else f", held-out error {held_out:.4f} rad"))
    return 0


def _overridden(config: TrainConfig, args: argparse.Namespace) -> TrainConfig:
    """The file's settings with those of the command line in their place."""
    from fcnet_core.learning.config import with_settings

    changes: dict[str, Any] = {
        name: getattr(args, name) for name in ("seed", "threads") if getattr(args, name) is not None
    }
    if args.data:
        changes["data"] = args.data
    if args.steps is not None or args.epochs is not None:
        changes |= {"steps": args.steps, "epochs": args.epochs}
    return with_settings(config, **changes)


@contextmanager
def _reports(begin: Progress, as_json: bool, is_first: bool) -> Iterator[Callable[[Progress], None]]:
    """Yield a function that shows progress: as lines of JSON, or as a bar with loss and held-out error.

    Of several processes only the first shows any.
    """
    hidden = as_json or not is_first
    with tqdm(
        initial=begin.step, total=begin.steps, unit="step", desc="training", dynamic_ncols=True, disable=hidden
    ) as bar:

        def report(progress: Progress) -> None:
            if as_json and is_first:
                print(json.dumps(asdict(progress)), flush=True)
            held_out = "" if progress.held_out_error is None else f", held-out error {progress.held_out_error:.4f} rad"
            bar.set_postfix_str(f"loss {progress.loss:.4f}{held_out}", refresh=False)
            bar.update(progress.step - bar.n)

        yield report


@contextmanager
def _stop_on_signal() -> Iterator[Callable[[], bool]]:
    """Yield a function that says whether Ctrl-C or a request to terminate has come since."""
    received: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    previous = [signal.signal(number, lambda number, frame: received.append(number)) for number in numbers]
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in zip(numbers, previous, strict=True):
            signal.signal(number, handler)
