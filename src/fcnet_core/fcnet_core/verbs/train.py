"""fcnet train: a policy from recorded behaviour."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from fcnet_core.errors import FcnetError
from fcnet_core.files import writing
from fcnet_core.hub import is_hub
from fcnet_core.learning.config import (
    DEFAULT_PRESET,
    TrainConfig,
    folders_and_weights,
    load_train_config,
    with_settings,
)
from fcnet_core.learning.dataset import read_manifest
from fcnet_core.learning.runs import RunFolder, check_place, load_tracker, new_run, recording, unfinished_run
from fcnet_core.model_file import load_model
from fcnet_core.verbs import STDOUT, add_json, check_json

if TYPE_CHECKING:
    from fcnet_core.learning.imitation import Imitation
    from fcnet_core.learning.processes import Processes
    from fcnet_core.learning.trainer import Progress

PACKAGES = ("torch", "tensorboard", "onnxscript")  # not installed on a robot
OUT_OF_MEMORY = ("allocate memory", "out of memory")  # in the messages of torch for processor and GPU
INTERRUPTED = 130
SUMMARY = "train a policy to imitate recorded behaviour"
EPILOG = """
A run is defined by its configuration, data and seed; repeating it gives the same policy. It writes a folder,
runs/<robot>-<policy>-<number> or --out, with
  best.safetensors, last.safetensors   the policy with the lowest validation error, and the policy at the end
  metrics.csv, events.out.tfevents.*   loss, validation error and learning rate (`tensorboard --logdir runs`)
  settings.yaml, run.json              settings, command line and state of the run
A checkpoint is written regularly and on Ctrl-C; the same command with --resume continues the run exactly.

To train with several processes, each on a part of every batch (docs/scaling.md):
  torchrun --nproc-per-node=2 -m fcnet_core.learning CONFIG --data DIR

examples:
  fcnet collect --config config/collect/aliengo.yaml --out data/aliengo
  fcnet train --data data/aliengo
  fcnet evaluate runs/aliengo-fcnet-1
  fcnet train --config mlp --data hf://owner/name --steps 5000

a DAgger iteration, with three times the weight on newer data:
  fcnet train --config dagger --data data/aliengo --data data/aliengo-dagger:3 \\
              --init runs/aliengo-fcnet-1/last.safetensors
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument(
        "--config",
        default=DEFAULT_PRESET,
        type=Path,
        metavar="YAML",
        help=f"settings: a file, or the name of a preset in config/train/ (default: {DEFAULT_PRESET})",
    )
    parser.add_argument(
        "--data",
        action="append",
        metavar="DIR[:WEIGHT]",
        help="a data folder of `fcnet collect` or `fcnet dataset`, or hf://owner/name; may be given several times; a"
        " step of a folder with weight 2 is sampled twice as often (default: the configuration's data)",
    )
    out = "the run's folder (default: runs/<robot>-<policy>-<number>)"
    parser.add_argument("-o", "--out", type=Path, metavar="DIR", help=out)
    parser.add_argument("--init", metavar="MODEL", help="start from this policy instead of random weights")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--steps", type=int, metavar="N", help="optimiser steps (default: the configuration's length)")
    length.add_argument("--epochs", type=float, metavar="N", help="passes over the data, instead of --steps")
    parser.add_argument("--seed", type=int, metavar="N", help="random seed (default: the configuration's)")
    parser.add_argument("--threads", type=int, metavar="N", help="threads per process (default: the configuration's)")
    resume = "continue the interrupted run in --out, or the newest one of this robot and policy"
    parser.add_argument("--resume", action="store_true", help=resume)
    track = "send the metrics to a function of your own, for example for Weights & Biases (docs/training.md)"
    parser.add_argument("--track", metavar="MODULE:FUNCTION", help=track)
    add_json(parser, "progress, one line per report,")


def run(args: argparse.Namespace) -> int:
    """Train; return 0 if the policy is written, 130 if interrupted, with a checkpoint for --resume."""
    if os.environ.get("RANK", "0") == "0":  # of the processes of torchrun, one reports wrong use
        _check(args)
    from fcnet_core.learning.processes import joined

    with joined() as processes:
        return _train(args, processes)


def _check(args: argparse.Namespace) -> None:
    """Raise FcnetError for wrong use, before torch is imported, which takes seconds."""
    config = _config(args)
    if not config.data:
        raise FcnetError("there are no data to train on; give --data DIR, a folder of `fcnet collect`")
    for folder in folders_and_weights(config.data)[0]:
        if not is_hub(folder):
            read_manifest(folder)
    check_place(args.out, args.resume)
    check_json(args.json)
    if args.track:
        load_tracker(args.track)
    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        raise FcnetError(f"training needs the Python package {missing[0]}; install requirements/train.txt")


def _train(args: argparse.Namespace, processes: Processes) -> int:
    from fcnet_core.learning.imitation import Imitation

    config = _config(args)
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
        memory = isinstance(error, MemoryError) or isinstance(error.__context__, MemoryError)  # hidden by torch.save
        if not memory and not any(words in str(error) for words in OUT_OF_MEMORY):
            raise
        sizes = f"batch {config.batch}, crop {config.crop} and {config.policy_config.parameters:,} parameters"
        raise FcnetError(f"this computer has too little memory for {sizes}; make one of them smaller") from error


def _place(args: argparse.Namespace, imitation: Imitation) -> Path:
    """Return the run's folder; make a new one."""
    names = imitation.data.manifest.robot, imitation.config.policy_type
    if args.out is None:
        return unfinished_run(*names) if args.resume else new_run(*names)
    path: Path = args.out
    if not args.resume:
        path.mkdir(parents=True, exist_ok=True)
    return path


def _recorded(args: argparse.Namespace, imitation: Imitation, folder: RunFolder) -> int:
    """Train in the first process, which shows the progress and writes the run's folder."""
    trainer, start, command_line = imitation.trainer, imitation.trainer.progress, shlex.join(["fcnet", *sys.argv[1:]])
    quiet, tracker = args.json == STDOUT, load_tracker(args.track) if args.track else None
    if not quiet:
        print(f"training into {folder.path}; `tensorboard --logdir {folder.path.parent}` shows the curves", flush=True)
    with (
        _stop_on_signal() as stop,  # outermost: torchrun terminates this process before it has reported its error
        nullcontext(sys.stdout) if quiet or not args.json else Path(args.json).open("w", encoding="utf-8") as out,
        recording(folder, imitation, command_line, tracker) as recorder,
        tqdm(
            desc="training", initial=start.step, total=start.steps, unit="step", dynamic_ncols=True, disable=quiet
        ) as bar,
    ):

        def write(content: dict[str, Any]) -> None:
            if args.json:
                with writing(args.json):
                    print(json.dumps(content), file=out, flush=True)

        def report(progress: Progress) -> None:
            recorder.record(progress)
            write(asdict(progress))
            error = progress.held_out_error
            validated = "" if error is None else f", validation error {error:.4f} rad"
            bar.set_postfix_str(f"loss {progress.loss:.4f}{validated}", refresh=False)
            bar.update(progress.step - bar.n)

        if not trainer.run(report, stop, folder.checkpoint):
            step = trainer.progress.step
            print(f"fcnet: stopped after step {step}; add --out {folder.path} --resume to continue", file=sys.stderr)
            return INTERRUPTED
        model = recorder.finish()
        facts = {"run": str(folder.path), "model": str(folder.last), "fingerprint": model.fingerprint}
        write(facts | {"held_out_error": trainer.progress.held_out_error})
    if not quiet:
        best, held_out = recorder.run.best, trainer.progress.held_out_error
        print(f"wrote {folder.last}" + ("" if held_out is None else f", validation error {held_out:.4f} rad"))
        if best:
            print(f"wrote {folder.best}, of step {best.step:,}, validation error {best.held_out_error:.4f} rad")
    return 0


def _config(args: argparse.Namespace) -> TrainConfig:
    """Return the file's settings, replaced by those of the command line."""
    given = {name: getattr(args, name) for name in ("seed", "threads", "data")}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if args.steps is not None or args.epochs is not None:
        changes |= {"steps": args.steps, "epochs": args.epochs}
    return with_settings(load_train_config(args.config), **changes)


@contextmanager
def _stop_on_signal() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether Ctrl-C or SIGTERM has been received."""
    received: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    previous = [signal.signal(number, lambda number, frame: received.append(number)) for number in numbers]
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in zip(numbers, previous, strict=True):
            signal.signal(number, handler)
