"""Measures how many times faster than real time bags are evaluated on one core.

    python benchmarks/replay_speed.py [--seconds 60] [--rounds 5]

The bags are generated: states and odom at 250 and 500 Hz, uncompressed and with compressed chunks. The commands
`fcnet replay BAG --report FILE` run in turn, and `fcnet replay --help`: the start of Python and its libraries. The
evaluation alone is that of a second bag in one process. All times are processor time.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rosbags.rosbag2 import CompressionMode

from fcnet_core.model_file import load_model, shipped_model
from fcnet_core.robot import load_robot

sys.path.append(str(Path(__file__).parents[1] / "src/fcnet_replay/test/shared"))
from made_bag import MadeBag

KINDS = {
    "250 Hz": (250.0, CompressionMode.NONE),
    "500 Hz": (500.0, CompressionMode.NONE),
    "250 Hz, compressed": (250.0, CompressionMode.STORAGE),
    "500 Hz, compressed": (500.0, CompressionMode.STORAGE),
}
REPLAY = ("fcnet_core.cli", "replay")
EVALUATE = """import pathlib, sys, time, fcnet_replay.evaluation
for _ in range(2):
    began = time.process_time()
    fcnet_replay.evaluation.evaluate_bag(pathlib.Path(sys.argv[1]))
print(time.process_time() - began)"""
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def main() -> None:
    """Print medians of interleaved rounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    model, robot = load_model(shipped_model("aliengo")), load_robot("aliengo")
    with tempfile.TemporaryDirectory() as folder:
        bags = {}
        for kind, (rate, compression) in KINDS.items():
            custom = {"fcnet.robot": "aliengo"}
            bag = MadeBag(model, robot, seconds=args.seconds, rate=rate, compression=compression, custom=custom)
            bags[kind] = str(bag.write(Path(folder) / kind))
        rounds = [{kind: _times(bag, f"{folder}/page.html") for kind, bag in bags.items()} for _ in range(args.rounds)]
    print(f"{'processor time':<20} {'command [s]':>12} {'x real time':>12} {'evaluation [s]':>15} {'x real time':>12}")
    for kind in bags:
        whole, alone = (statistics.median(times[kind][part] for times in rounds) for part in range(2))
        print(f"{kind:<20} {whole:12.2f} {args.seconds / whole:12.0f} {alone:15.3f} {args.seconds / alone:12.0f}")
    print(f"{'fcnet replay --help':<20} {_run('-m', *REPLAY, '--help')[0]:12.2f}")


def _times(bag: str, page: str) -> tuple[float, float]:
    """Return the processor time [s] of `fcnet replay BAG --report FILE`, and that of the evaluation alone."""
    return _run("-m", *REPLAY, bag, "--report", page)[0], float(_run("-c", EVALUATE, bag)[1])


def _run(*arguments: str) -> tuple[float, str]:
    """Return the processor time [s] and the output of Python with these arguments."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, *arguments], env=os.environ | ONE_THREAD, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout.decode()


if __name__ == "__main__":
    main()
