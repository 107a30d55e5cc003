"""How training scales: with processes and precision, and with data larger than memory.

    python benchmarks/scaling.py processes [--processes 1 2] [--precision float32 bfloat16] [--batch 64] [--rounds 5]
    python benchmarks/scaling.py memory [--gigabytes 10] [--memory 2] [--steps 300] [--rounds 3]
    torchrun --standalone --nproc-per-node=2 benchmarks/scaling.py exchange

processes: optimiser steps of the same global batch by so many processes (torchrun, gloo) of one thread each, in turn.
Ratios are of the time that passes, from the same round; on a machine that does something else they mean little.

exchange: what these processes wait for each other in an optimiser step, by itself.

memory: made-up data are trained on in a control group that may have so many gigabytes, page cache included (needs root;
cgroup version 1 or 2), in turn with data that fit, outside of it. None of the large data are in the page cache when a
training begins. The data lie in a temporary folder of --folder and are removed at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import msgspec
import numpy as np
import torch
import torch._dynamo  # an optimiser imports it, for seconds
import torch.distributed as dist
import yaml

from fcnet_core.learning.config import TrainConfig, load_train_config, with_settings
from fcnet_core.learning.dataset import DatasetWriter, Manifest
from fcnet_core.learning.imitation import Imitation
from fcnet_core.observation import LAYOUT
from fcnet_core.policies.fcnet import FCNetConfig
from fcnet_core.robot import load_robot

SEQUENCES, STEPS = 32, 700  # of a shard, as collected: 7.4 MB
WARM_UP = 10  # optimiser steps: code is compiled, caches fill
FITS = 0.2  # [GB] data that fit in memory
CGROUPS = Path("/sys/fs/cgroup")


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=Path("config/train/imitation.yaml"), metavar="YAML")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    kinds = parser.add_subparsers(required=True)
    many = kinds.add_parser("processes")
    many.add_argument("--processes", type=int, nargs="+", default=[1, 2], metavar="N")
    many.add_argument("--precision", nargs="+", default=["float32", "bfloat16"])
    many.add_argument("--batch", type=int, default=64, help="crops of an optimiser step, of all processes together")
    many.add_argument("--steps", type=int, default=50, help="optimiser steps of a round")
    many.add_argument("--rounds", type=int, default=5)
    many.set_defaults(measure=by_processes)
    large = kinds.add_parser("memory")
    large.add_argument("--gigabytes", type=float, default=10.0, help="of made-up data")
    large.add_argument("--memory", type=float, default=2.0, metavar="GB", help="that training may have")
    large.add_argument("--steps", type=int, default=300, help="optimiser steps of a round")
    large.add_argument("--rounds", type=int, default=3)
    large.set_defaults(measure=by_memory)
    kinds.add_parser("exchange").set_defaults(measure=lambda _: exchange())
    one = kinds.add_parser("one")  # one training of `memory`, in a process of its own
    one.add_argument("settings")
    one.set_defaults(measure=lambda args: print(json.dumps(one_training(args.settings))))
    args = parser.parse_args()
    args.measure(args)


def by_processes(args: argparse.Namespace) -> None:
    """Print milliseconds of an optimiser step, and how many times faster than the first row it is."""
    rows = list(product(args.precision, args.processes))
    milliseconds: dict[tuple[str, int], list[float]] = {row: [] for row in rows}
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = Path(name)
        made_up(folder / "data", FITS)
        for precision in args.precision:
            steps = {"batch": args.batch, "steps": WARM_UP + args.steps, "epochs": None, "log_interval": WARM_UP}
            every = 10**9  # no validation and no checkpoint but the last
            settings = steps | {"precision": precision, "validation_interval": every, "checkpoint_interval": every}
            config = with_settings(load_train_config(args.config), **settings)
            write_settings(config, folder / f"{precision}.yaml")
        for _ in range(args.rounds):
            for row in rows:
                milliseconds[row].append(step_time(folder, *row))
    print(f"global batch {args.batch}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}\n")
    print("| precision | processes | an optimiser step [ms] | faster than the first row |\n| --- | --- | --- | --- |")
    for precision, count in rows:
        ratios = [first / own for first, own in zip(milliseconds[rows[0]], milliseconds[precision, count], strict=True)]
        time_passed = statistics.median(milliseconds[precision, count])
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        print(f"| {precision} | {count} | {time_passed:.1f} | {spread} |")


def step_time(folder: Path, precision: str, processes: int) -> float:
    """Milliseconds of an optimiser step after the warm-up."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command += ["-m", "fcnet_core.learning", f"{precision}.yaml", "--data", "data", "--json", "-"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    finished = subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE)
    first, *_, last, _ = map(json.loads, finished.stdout.splitlines())
    return 1e3 * float(last["seconds"] - first["seconds"]) / (last["step"] - first["step"])


def exchange() -> None:
    """Print the time of a sum over processes: of one number, as for losses, and of a network's gradients."""
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    if dist.get_rank() == 0:
        print("| numbers | least [ms] | median [ms] |\n| --- | --- | --- |")
    for count in (1, FCNetConfig().parameters):
        numbers, times = torch.zeros(count), []
        for _ in range(100):
            begun = time.perf_counter()
            dist.all_reduce(numbers)
            times.append(1e3 * (time.perf_counter() - begun))
        if dist.get_rank() == 0:
            print(f"| {count:,} | {min(times):.2f} | {statistics.median(times):.2f} |")
    dist.destroy_process_group()


def by_memory(args: argparse.Namespace) -> None:
    """Print what a training step takes, and what memory, with data that fit and with data that do not."""
    if shutil.disk_usage(args.folder).free < (args.gigabytes + 1) * 1e9:
        sys.exit(f"{args.folder} has no {args.gigabytes + 1:.0f} GB free; name another folder with --folder")
    rounds: list[dict[str, dict[str, float]]] = []
    with tempfile.TemporaryDirectory(dir=args.folder) as name, control_group(args.memory) as group:
        large, small = Path(name) / "large", Path(name) / "small"
        made_up(large, args.gigabytes)
        made_up(small, FITS)
        base = load_train_config(args.config)
        for number in range(args.rounds + 1):
            results = {}
            for kind, folder, limit in (("fits", small, None), ("larger", large, group)):
                settings = with_settings(
                    base, data=(str(folder),), steps=WARM_UP + args.steps, epochs=None, seed=number
                )
                path = Path(name) / "settings.yaml"
                write_settings(settings, path)
                if limit:
                    forget(large)
                results[kind] = measured(path, limit)
            rounds.append(results)
            print(f"round {number}: {json.dumps(results)}", flush=True)
    print(f"\n| | {FITS:g} GB, no limit | {args.gigabytes:g} GB, {args.memory:g} GB of memory |\n| --- | --- | --- |")
    for what in rounds[1]["larger"]:
        values = [[one[kind][what] for one in rounds[1:] if what in one[kind]] for kind in ("fits", "larger")]
        print(f"| {what} | " + " | ".join(f"{statistics.median(own):.3g}" if own else "" for own in values) + " |")
    first = rounds[0]["larger"]["start [s]"]
    ratios = [one["larger"]["step [ms]"] / one["fits"]["step [ms]"] for one in rounds[1:]]
    print(f"\nfirst start, which reads all data: {first:.1f} s")
    print(
        f"a step on larger data over one on data that fit: {statistics.median(ratios):.3f}",
        *map("{:.3f}".format, ratios),
    )


def measured(settings: Path, group: Path | None) -> dict[str, float]:
    """One training in a process of its own, in the control group if there is one."""
    join = (lambda: (group / "cgroup.procs").write_text(str(os.getpid())) and None) if group else None
    command = [sys.executable, __file__, "one", str(settings)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    finished = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, preexec_fn=join)
    result: dict[str, float] = json.loads(finished.stdout)
    if group:
        result["group at most [GB]"] = peak(group)
    return result


def one_training(settings: str) -> dict[str, float]:
    """Times and memory of a training on the data of a settings file."""
    config = load_train_config(settings)
    begun = time.perf_counter()
    run = Imitation(config)
    start = time.perf_counter() - begun
    read = [reading_time(run, number) for number in range(20)]
    for _ in range(WARM_UP):
        run.trainer.optimise()
    begun, worked = time.perf_counter(), time.process_time()
    while run.trainer.progress.step < run.trainer.progress.steps:
        run.trainer.optimise()
    steps = run.trainer.progress.step - WARM_UP
    passed, worked = time.perf_counter() - begun, time.process_time() - worked
    begun = time.perf_counter()
    run.policy("")
    return {
        "step [ms]": 1e3 * passed / steps,
        "step, of the processor [ms]": 1e3 * worked / steps,
        "reading one batch alone [ms]": 1e3 * statistics.median(read),
        "start [s]": start,
        "policy, with its envelope [s]": time.perf_counter() - begun,
        **{f"{name} [GB]": resident(name) for name in ("VmHWM", "RssAnon", "RssFile")},
    }


def reading_time(run: Imitation, number: int) -> float:
    """Seconds for drawing and reading the crops of one optimiser step."""
    begun = time.perf_counter()
    run.trainer.crops.draw(np.random.default_rng(10**6 + number), run.config.batch)
    return time.perf_counter() - begun


def resident(name: str) -> float:
    """Gigabytes, of an entry of /proc/self/status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(name)) / 1e6


def write_settings(config: TrainConfig, path: Path) -> None:
    """A settings file, of which what is not set is left out."""
    path.write_text(
        yaml.safe_dump({name: value for name, value in msgspec.to_builtins(config).items() if value is not None})
    )


def made_up(folder: Path, gigabytes: float) -> None:
    """Data of an Aliengo that hold nothing to learn, in shards as collected ones."""
    rng, robot = np.random.default_rng(0), load_robot("aliengo")
    observation = rng.standard_normal((SEQUENCES, STEPS, 70), dtype=np.float32)
    observation[..., LAYOUT["command"]] = rng.uniform(-0.5, 0.5, observation[..., LAYOUT["command"]].shape)
    action = (robot.stand_pose + 0.1 * rng.standard_normal((SEQUENCES, STEPS, 12))).astype(np.float32)
    first = np.zeros((SEQUENCES, STEPS), dtype=bool)
    first[:, 0] = True
    writer = DatasetWriter(folder, Manifest("aliengo", 50.0, {"source": "made up"}))
    for _ in range(max(2, round(gigabytes * 1e9 / (observation.nbytes + action.nbytes)))):
        writer.add({}, observation=observation, action=action, first=first)


def forget(folder: Path) -> None:
    """Take the files out of the page cache; they are on the disk."""
    for path in folder.glob("*/*.npy"):
        file = os.open(path, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


@contextmanager
def control_group(gigabytes: float) -> Iterator[Path]:
    """A group of processes that may have so much memory together, page cache included."""
    unified = (CGROUPS / "cgroup.controllers").exists()
    group = CGROUPS / ("." if unified else "memory") / f"fcnet-scaling-{os.getpid()}"
    try:
        group.mkdir()
        (group / ("memory.max" if unified else "memory.limit_in_bytes")).write_text(str(round(gigabytes * 1e9)))
    except OSError as error:
        sys.exit(f"memory cannot be limited ({error}); run this as root, where the memory controller is on")
    try:
        yield group
    finally:
        group.rmdir()


def peak(group: Path) -> float:
    """The most that the group ever had [GB]."""
    path = group / "memory.peak"
    return float((path if path.exists() else group / "memory.max_usage_in_bytes").read_text()) / 1e9


if __name__ == "__main__":
    main()
