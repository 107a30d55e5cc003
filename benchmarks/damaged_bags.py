"""Evaluates a thousand damaged bags: each must be refused in a sentence or reported in part, fast, in little memory.

    python benchmarks/damaged_bags.py [--bags 1000] [--seed 0]

The memory of the process is limited, each bag has 20 s; a traceback, a hang or a full memory ends it with status 1.
"""

from __future__ import annotations

import argparse
import json
import resource
import signal
import struct
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

from damage import RECORD, damaged_copy
from made_bag import MadeBag
from rosbags.rosbag2 import CompressionMode, StoragePlugin

from fcnet_core import FcnetError
from fcnet_core.model_file import load_model
from fcnet_core.robot import load_robot
from fcnet_replay.errors import ReplayError
from fcnet_replay.evaluation import SHIPPED, evaluate_bag
from fcnet_replay.findings import summary
from fcnet_replay.recording_notes import RecordingNotes
from fcnet_replay.report.page import page

MEMORY = 3 * 2**30  # [bytes] of address space; the compiler's libraries alone take more than one
TIME_LIMIT = 20  # [s]
WITHOUT_METADATA = "mcap, metadata.yaml lost"
KINDS = {
    "mcap": {},
    "mcap, compressed chunks": {"compression": CompressionMode.STORAGE},
    "sqlite3": {"storage": StoragePlugin.SQLITE3},
    "sqlite3, version 8": {"storage": StoragePlugin.SQLITE3, "version": 8},
    "sqlite3, compressed file": {"storage": StoragePlugin.SQLITE3, "compression": CompressionMode.FILE},
    "sqlite3, compressed messages": {"storage": StoragePlugin.SQLITE3, "compression": CompressionMode.MESSAGE},
    WITHOUT_METADATA: {},
}


def main() -> int:
    """Print how often what happened; 0 when nothing bad did."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bags", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    warnings.simplefilter("error")
    with tempfile.TemporaryDirectory() as folder:
        whole = _whole_bags(Path(folder))
        for kind, bag in whole.items():
            assert outcome(bag) == ("in part" if kind == WITHOUT_METADATA else "whole"), bag
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        counts, longest = _evaluate(whole, Path(folder) / "damaged", args.seed, args.bags)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    for kind in KINDS:
        outcomes = ", ".join(f"{count} {what}" for (name, what), count in sorted(counts.items()) if name == kind)
        print(f"{kind:<30} {outcomes}")
    print(f"{args.bags} bags: the longest took {longest:.2f} s, memory grew by {grown:.0f} MiB at most")
    return int(any(what.startswith("FAILED") for _, what in counts))


def _whole_bags(folder: Path) -> dict[str, Path]:
    model, robot = load_model(SHIPPED / "aliengo.safetensors"), load_robot("aliengo")
    noted = RecordingNotes("aliengo", model_fingerprint=model.fingerprint).custom_data()
    bags = {
        kind: MadeBag(model, robot, seconds=1.5, custom=noted, **settings).write(folder / str(index))  # type: ignore[arg-type]
        for index, (kind, settings) in enumerate(KINDS.items())
    }
    (bags[WITHOUT_METADATA] / "metadata.yaml").unlink()
    _begin_with_metadata(*bags[WITHOUT_METADATA].iterdir())
    return bags


def _begin_with_metadata(file: Path) -> None:
    """Put the metadata that an mcap file ends with behind its header too, as recorders do."""
    content = file.read_bytes()
    at = content.index(RECORD) - 28  # name, lengths, and the record's head
    (length,) = struct.unpack_from("<Q", content, at + 1)
    header = 17 + struct.unpack_from("<Q", content, 9)[0]
    file.write_bytes(content[:header] + content[at : at + 9 + length] + content[header:])


def _evaluate(whole: dict[str, Path], folder: Path, seed: int, bags: int) -> tuple[Counter[tuple[str, str]], float]:
    counts: Counter[tuple[str, str]] = Counter()
    longest = 0.0
    signal.signal(signal.SIGALRM, _stop)
    for index in range(bags):
        kind = list(whole)[index % len(whole)]
        damage = damaged_copy(whole[kind], folder, seed + index)
        began = time.perf_counter()
        signal.alarm(TIME_LIMIT)
        try:
            what = outcome(folder)
        except Exception as error:  # noqa: BLE001 - this is what is looked for
            what = f"FAILED ({type(error).__name__}: {error})"
            print(f"seed {seed + index}, {kind}, {damage}: {what}", file=sys.stderr)
        finally:
            signal.alarm(0)
        counts[kind, what] += 1
        longest = max(longest, time.perf_counter() - began)
    return counts, longest


def outcome(bag: Path) -> str:
    """Evaluate one bag as `fcnet replay` does, report and all."""
    try:
        evaluated = evaluate_bag(bag)
    except ReplayError as error:
        assert str(bag) in str(error), error
        return "refused"
    except FcnetError:
        return "refused: its note of the robot is damaged"
    json.dumps(evaluated.figures, allow_nan=False)
    page(evaluated)
    summary(evaluated)
    return "in part" if evaluated.figures["problems"] else "whole"


def _stop(_signal: int, _frame: object) -> None:
    raise TimeoutError(f"it took more than {TIME_LIMIT} s")


if __name__ == "__main__":
    sys.exit(main())
