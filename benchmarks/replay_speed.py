"""Measures how many times faster than real time bags are evaluated on one core, and where the time goes.

    python benchmarks/replay_speed.py [--seconds 60] [--rounds 5]

The bags are generated: states and odom at 250 and 500 Hz, uncompressed and with compressed chunks. They are evaluated
in turn; times are CPU time, which other work on the machine changes less. Then follows the whole command
`fcnet replay BAG --report FILE` for each bag, and `fcnet replay --help`: with the start of Python and its libraries.
"""

from __future__ import annotations

import os

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_threads] = "1"  # before NumPy is loaded

import argparse  # noqa: E402
import json  # noqa: E402
import resource  # noqa: E402
import statistics  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402

from rosbags.rosbag2 import CompressionMode  # noqa: E402

from fcnet_core.model_file import load_model, shipped_model  # noqa: E402
from fcnet_core.robot import load_robot  # noqa: E402
from fcnet_replay.bags.bag import open_bag  # noqa: E402
from fcnet_replay.evaluation import evaluate_bag  # noqa: E402
from fcnet_replay.read_run import read_run  # noqa: E402
from fcnet_replay.report.page import page  # noqa: E402

sys.path.append(str(Path(__file__).parents[1] / "src/fcnet_replay/test/shared"))
from made_bag import MadeBag  # noqa: E402

KINDS = {
    "250 Hz": (250.0, CompressionMode.NONE),
    "500 Hz": (500.0, CompressionMode.NONE),
    "250 Hz, compressed": (250.0, CompressionMode.STORAGE),
    "500 Hz, compressed": (500.0, CompressionMode.STORAGE),
}


def main() -> None:
    """Print medians of interleaved rounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bags = _bags(Path(folder), args.seconds)
        for bag in bags.values():
            _times(bag)  # compiles, and brings the files into memory
        rounds = [{kind: _times(bag) for kind, bag in bags.items()} for _ in range(args.rounds)]
        commands = {kind: ["replay", str(bag), "--report", f"{folder}/page.html"] for kind, bag in bags.items()}
        commands["--help"] = ["replay", "--help"]
        whole = [{kind: _command(arguments) for kind, arguments in commands.items()} for _ in range(args.rounds)]
    print(f"{'bag':<20} {'read [s]':>9} {'eval. [s]':>10} {'x real time':>12} {'min':>7} {'with page':>10}")
    for kind in bags:
        read, evaluated, paged = (statistics.median(times[kind][part] for times in rounds) for part in range(3))
        least = max(times[kind][1] for times in rounds)
        ratios = f"{args.seconds / evaluated:12.0f} {args.seconds / least:7.0f} {args.seconds / paged:10.0f}"
        print(f"{kind:<20} {read:9.3f} {evaluated:10.3f} {ratios}")
    print(f"\n{'whole command':<20} {'processor [s]':>14} {'passed [s]':>11} {'x real time':>12}")
    for kind in commands:
        processor, passed = (statistics.median(times[kind][part] for times in whole) for part in range(2))
        ratio = f"{args.seconds / processor:12.0f}" if kind in bags else ""
        print(f"{kind:<20} {processor:14.2f} {passed:11.2f} {ratio}")


def _bags(folder: Path, seconds: float) -> dict[str, Path]:
    model, robot = load_model(shipped_model("aliengo")), load_robot("aliengo")
    return {
        kind: MadeBag(
            model, robot, seconds=seconds, rate=rate, compression=compression, custom={"fcnet.robot": "aliengo"}
        ).write(folder / kind)
        for kind, (rate, compression) in KINDS.items()
    }


def _times(bag: Path) -> tuple[float, float, float]:
    """Return the CPU seconds for reading, for evaluation (reading, replay, figures, JSON), and for both with a page."""
    begun = time.process_time()
    read_run(open_bag(bag))
    read = time.process_time() - begun
    begun = time.process_time()
    evaluated = evaluate_bag(bag)
    json.dumps(evaluated.figures, allow_nan=False)
    evaluation = time.process_time() - begun
    page(evaluated)
    return read, evaluation, time.process_time() - begun


def _command(arguments: list[str]) -> tuple[float, float]:
    """Return the CPU seconds and the elapsed seconds of one `fcnet` command."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-m", "fcnet_core.cli", *arguments], stdout=subprocess.DEVNULL, check=True)
    passed, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, passed


if __name__ == "__main__":
    main()
