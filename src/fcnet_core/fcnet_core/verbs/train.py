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
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tqdm import tqdm

from fcnet_core.errors import FcnetError
from fcnet_core.model_file import load_model
from fcnet_core.runs.folder import RunFolder, check_place, new_run, unfinished_run
from fcnet_core.runs.trackers import TRACKERS, check_trackers

if TYPE_CHECKING:
    from fcnet_core.learning.config import TrainConfig
    from fcnet_core.learning.imitation import Imitation
    from fcnet_core.learning.processes import Processes
    from fcnet_core.learning.trainer import Progress

PACKAGES = ("torch", "tensorboard")  # beyond those that a robot needs
OUT_OF_MEMORY = ("allocate memory", "out of memory")  # of the processor's, of a GPU's
INTERRUPTED = 130
SUMMARY = "train a policy to imitate recorded behaviour"
EPILOG = """
A run is defined by its configuration, its data and its seed: whoever repeats it gets the same policy, on a slow
machine or a fast one. It is a folder, runs/<robot>-<policy>-<number> unless --out names another, with
  best.safetensors, last.safetensors   the policy with the lowest held-out error, and that at the end
  curves.html, metrics.csv             loss, held-out error and learning rate; the page is live while it trains
  events.out.tfevents.*                the same for `tensorboard --logdir runs`
  settings.yaml, run.json              what it was made with
A checkpoint is written now and then and when it is interrupted (Ctrl-C); the same command line with --resume continues
the run as if nothing had happened. `fcnet compare RUN RUN` shows runs side by side.

On many processes, which share every batch (docs/scaling.md):
  torchrun --nproc-per-node=2 -m fcnet_core.learning CONFIG --data DIR

The policy accepts the commands that its data hold, its envelope: `fcnet info` shows it.

example:
  fcnet collect --config config/collect/aliengo.yaml --out data/aliengo
  fcnet train --config config/train/imitation.yaml --data data/aliengo
  fcnet evaluate runs/aliengo-fcnet-1

another round, in which newer data count three times as much:
  fcnet train --config config/train/dagger.yaml --data data/aliengo --data data/aliengo-dagger:2 \\
              --init runs/aliengo-fcnet-1/last.safetensors
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument(
        "--config", required=True, type=Path, metavar="YAML", help="settings: a file, or a name of config/train/"
    )
    parser.add_argument(
        "--data",
        action="append",
        metavar="DIR[:WEIGHT]",
        help="a folder that `fcnet collect` wrote; repeat for several; a step of a folder with weight 2 is drawn twice"
        " as often as one with weight 1 (default: the configuration's)",
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="the run's folder (default: runs/<robot>-<policy>-<number>, a new one)"
    )
    parser.add_argument("--init", type=Path, metavar="FILE", help="start from this policy instead of random weights")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--steps", type=int, metavar="N", help="optimiser steps, instead of the configuration's length")
    length.add_argument(
        "--epochs", type=float, metavar="N", help="passes over the data, instead of the configuration's"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="seed, instead of the configuration's")
    parser.add_argument("--threads", type=int, metavar="N", help="processor cores, instead of the configuration's")
    parser.add_argument("--checkpoint", type=_no_checkpoint, help=argparse.SUPPRESS)
    parser.add_argument(
        "--resume",
        action="store_true",
        help="continue the interrupted run in --out, or the newest one of this robot and policy",
    )
    parser.add_argument(
        "--track", action="append", default=[], choices=tuple(TRACKERS), help="report to this service, too"
    )
    parser.add_argument("--json", action="store_true", help="print JSON lines instead of a progress bar")


def run(args: argparse.Namespace) -> int:
    """Train; 0 when the policy is written, 130 when interrupted with a checkpoint to resume from."""
    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        raise FcnetError(f"training needs the Python package {missing[0]}; install requirements/train.txt")
    from fcnet_core.learning.processes import joined

    with joined() as processes:
        return _train(args, processes)


def _train(args: argparse.Namespace, processes: Processes) -> int:
    from fcnet_core.learning.config import load_train_config
    from fcnet_core.learning.imitation import Imitation

    config = _overridden(load_train_config(args.config), args)
    if processes.rank == 0:
        check_place(args.out, args.resume)
        check_trackers(args.track)
    try:
        imitation = Imitation(config, load_model(args.init) if args.init else None, processes)
        folder = RunFolder(processes.from_first(lambda: _place(args, imitation)))
        if args.resume:
            imitation.trainer.restore(folder.checkpoint)
        else:
            imitation.trainer.save(folder.checkpoint)
        if processes.rank == 0:
            return _recorded(args, imitation, folder)
        with _stop_on_signal() as stop:
            return 0 if imitation.trainer.run(lambda _progress: None, stop, folder.checkpoint) else INTERRUPTED
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


def _place(args: argparse.Namespace, imitation: Imitation) -> Path:
    """The run's folder; a new one is made."""
    names = imitation.data.manifest.robot, imitation.config.policy_type
    if args.out is None:
        return unfinished_run(*names) if args.resume else new_run(*names)
    path: Path = args.out
    if not args.resume:
        path.mkdir(parents=True, exist_ok=True)
    return path


def _recorded(args: argparse.Namespace, imitation: Imitation, folder: RunFolder) -> int:
    """Train, in the first process: it shows the progress and writes the folder."""
    from fcnet_core.runs.recorder import recording

    trainer, command_line = imitation.trainer, shlex.join(["fcnet", *sys.argv[1:]])
    if not args.json:
        print(f"training into {folder.path}, watch {folder.page}", flush=True)
    with (
        _stop_on_signal() as stop,  # outermost: torchrun terminates who is left, which has yet to write why
        recording(folder, imitation, command_line, args.track) as recorder,
        _progress_bar(trainer.progress, args.json) as show,
    ):

        def report(progress: Progress) -> None:
            recorder.record(progress)
            show(progress)

        if not trainer.run(report, stop, folder.checkpoint):
            step = trainer.progress.step
            print(f"fcnet: stopped after step {step}; add --out {folder.path} --resume to continue", file=sys.stderr)
            return INTERRUPTED
        model = recorder.finish()
    best, held_out = recorder.run.best, trainer.progress.held_out_error
    if args.json:
        facts = {"run": str(folder.path), "model": str(folder.last), "fingerprint": model.fingerprint}
        print(json.dumps(facts | {"held_out_error": held_out}))
    else:
        print(f"wrote {folder.last}" + ("" if held_out is None else f", held-out error {held_out:.4f} rad"))
        if best:
            print(f"wrote {folder.best}, of step {best.step:,}, held-out error {best.held_out_error:.4f} rad")
    return 0


def _no_checkpoint(path: str) -> NoReturn:
    raise argparse.ArgumentTypeError("it lies in the run's folder, see --out; leave this option out")


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
def _progress_bar(begin: Progress, as_json: bool) -> Iterator[Callable[[Progress], None]]:
    """Yield a function that shows progress: as lines of JSON, or as a bar with loss and held-out error."""
    with tqdm(
        initial=begin.step, total=begin.steps, unit="step", desc="training", dynamic_ncols=True, disable=as_json
    ) as bar:

        def show(progress: Progress) -> None:
            if as_json:
                print(json.dumps(asdict(progress)), flush=True)
            held_out = "" if progress.held_out_error is None else f", held-out error {progress.held_out_error:.4f} rad"
            bar.set_postfix_str(f"loss {progress.loss:.4f}{held_out}", refresh=False)
            bar.update(progress.step - bar.n)

        yield show


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
