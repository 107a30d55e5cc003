"""Measures how many times faster than real time bags are evaluated on one core.

    python benchmarks/replay_speed.py [--seconds 60] [--rounds 5]

The bags are generated: states and odom at 250 and 500 Hz, uncompressed and with compressed chunks. The commands
`fcnet replay BAG --report FILE` run in turn, and `fcnet replay --help`: the start of Python and its libraries. Other
work on the machine changes processor time less than the time that has passed.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
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
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def main() -> None:
    """Print medians of interleaved rounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    model, robot = load_model(shipped_model("aliengo")), load_robot("aliengo")
    with tempfile.TemporaryDirectory() as folder:
        commands = {"--help": ["--help"]}
        for kind, (rate, compression) in KINDS.items():
            custom = {"fcnet.robot": "aliengo"}
            bag = MadeBag(model, robot, seconds=args.seconds, rate=rate, compression=compression, custom=custom)
            commands[kind] = [str(bag.write(Path(folder) / kind)), "--report", f"{folder}/page.html"]
            _command(commands[kind])  # compiles, and brings the files into memory
        rounds = [{kind: _command(command) for kind, command in commands.items()} for _ in range(args.rounds)]
    print(f"{'fcnet replay':<20} {'processor [s]':>14} {'passed [s]':>11} {'x real time':>12}")
    for kind in commands:
        processor, passed = (statistics.median(times[kind][part] for times in rounds) for part in range(2))
        ratio = f"{args.seconds / processor:12.0f}" if kind in KINDS else ""
        print(f"{kind:<20} {processor:14.2f} {passed:11.2f} {ratio}")


def _command(arguments: list[str]) -> tuple[float, float]:
    """Return the CPU seconds and the elapsed seconds of one `fcnet replay`."""
    command = [sys.executable, "-m", "fcnet_core.cli", "replay", *arguments]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, env=os.environ | ONE_THREAD, stdout=subprocess.DEVNULL, check=True)
    passed, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, passed


if __name__ == "__main__":
    main()
