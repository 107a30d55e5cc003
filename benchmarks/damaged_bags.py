"""Evaluates a thousand damaged bags: each must be refused in a sentence or reported in part, fast, in little memory.

    python benchmarks/damaged_bags.py [--bags 1000] [--seed 0]

The memory of the process is limited, each bag has 20 s; a traceback, a hang or a full memory ends it with status 1.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from made_bag import STORAGES, MadeBag

from fcnet_core.errors import FcnetError, ReplayError
from fcnet_core.model_file import load_model, shipped_model
from fcnet_core.robot import load_robot
from fcnet_replay.evaluation import evaluate_bag
from fcnet_replay.findings import summary
from fcnet_replay.recording_notes import RecordingNotes
from fcnet_replay.report.page import page

MEMORY = 3 * 2**30  # [bytes] of address space; the compiler's libraries alone take more than one
TIME_LIMIT = 20  # [s]
LENGTHS = (0, 1, 255, 2**16, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1)
RECORD = b"serialized_metadata"  # in an mcap file
MANY = 20_000  # times that metadata.yaml may name a file within the size that is read of it
SPECIAL = ("/proc/kmsg", "/proc/kcore", "/proc/self/mem", "/dev/zero", "/dev/stdin", ".", "nowhere")
WORDS = (
    b"!!python/object/apply:os.system ['false']",
    b"*a",
    b"&a [*a, *a]",
    b"{{{{",
    b"\0",
    b"- ",
    b"9" * 400,
    b"null",
)
WITHOUT_METADATA = "mcap, metadata.yaml lost"
KINDS = STORAGES | {WITHOUT_METADATA: {}}


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
    model, robot = load_model(shipped_model("aliengo")), load_robot("aliengo")
    noted = RecordingNotes("aliengo", model_fingerprint=model.fingerprint).custom_data()
    bags = {
        kind: MadeBag(model, robot, seconds=1.5, custom=noted, **settings).write(folder / str(index))
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


def damaged_copy(bag: Path, folder: Path, seed: int) -> str:
    """Copy the bag to `folder` with one kind of damage, the same for the same seed, and return what was done."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(bag, folder)
    random = np.random.default_rng(seed)
    files = sorted(path for path in folder.iterdir() if path.name != "metadata.yaml")
    file, kinds = files[below(random, len(files))], dict(DAMAGES)
    if random.random() < 0.1:
        return _replaced(folder, file, random)
    if random.random() < 0.15 and (folder / "metadata.yaml").exists():
        file, kinds = folder / "metadata.yaml", {"words": _words}
    content = bytearray(file.read_bytes())
    if RECORD in content and not (folder / "metadata.yaml").exists() and random.random() < 0.5:
        kinds = {"metadata": _metadata}
    kind = list(kinds)[below(random, len(kinds))]
    file.write_bytes(kinds[kind](content, random))
    return f"{kind} in {file.name}"


def _replaced(folder: Path, file: Path, random: np.random.Generator) -> str:
    """Let a link take a file's place, or the metadata name it many times."""
    metadata = folder / "metadata.yaml"
    if random.random() < 0.5:
        names = [file.name] * MANY
        if random.random() < 0.5:
            (folder / f"again{''.join(file.suffixes)}").symlink_to(file)
            names = [file.name, f"again{''.join(file.suffixes)}"]
        metadata.write_text(f"rosbag2_bagfile_information: {{relative_file_paths: {json.dumps(names)}}}")
        return f"{file.name} named {len(names)} times"
    place, target = (file, metadata)[below(random, 2)], SPECIAL[below(random, len(SPECIAL))]
    place.unlink(missing_ok=True)
    place.symlink_to(target)
    return f"{place.name} is a link to {target}"


def below(random: np.random.Generator, end: int) -> int:
    """A whole number from 0 to `end`, without it."""
    return int(random.integers(end))


def _cut(content: bytearray, random: np.random.Generator) -> bytearray:
    return content[: below(random, len(content))]


def _flip(content: bytearray, random: np.random.Generator) -> bytearray:
    """Bits anywhere, or near the beginning, where a file says how it is built."""
    end = len(content) if random.random() < 0.7 else min(len(content), 4000)
    for at in random.integers(end, size=1 + below(random, 19)).tolist():
        content[at] ^= 1 << below(random, 8)
    return content


def _overwrite(content: bytearray, random: np.random.Generator) -> bytearray:
    at = below(random, len(content))
    end = min(at + 1 + below(random, 2999), len(content))
    content[at:end] = random.bytes(end - at)
    return content


def _drop(content: bytearray, random: np.random.Generator) -> bytearray:
    at = below(random, len(content))
    del content[at : at + 1 + below(random, 4999)]
    return content


def _double(content: bytearray, random: np.random.Generator) -> bytearray:
    at = below(random, len(content))
    return content[:at] + content[max(0, at - 1 - below(random, 4999)) :]


def _lengths(content: bytearray, random: np.random.Generator) -> bytearray:
    """Numbers that a reader might trust."""
    end = len(content) if random.random() < 0.5 else min(len(content), 2000)
    for at in random.integers(end, size=5).tolist():
        number = LENGTHS[below(random, len(LENGTHS))].to_bytes(8, "little")
        content[at : at + 8] = number[: len(content[at : at + 8])]
    return content


def _words(content: bytearray, random: np.random.Generator) -> bytearray:
    """What YAML takes for more than a text."""
    at = below(random, len(content))
    content[at : at + below(random, 40)] = WORDS[below(random, len(WORDS))]
    return content


def _metadata(content: bytearray, random: np.random.Generator) -> bytearray:
    """The metadata that an mcap file itself holds, or the lengths before it."""
    at = content.index(RECORD) - 40 + below(random, 600)
    words = (*WORDS, *(random.bytes(1 + below(random, 8)) for _ in WORDS))
    word = words[below(random, len(words))]
    content[at : at + (len(word) if random.random() < 0.7 else 3)] = word
    return content


DAMAGES: dict[str, Callable[[bytearray, np.random.Generator], bytearray]] = {
    "cut": _cut,
    "flipped bits": _flip,
    "more flipped bits": _flip,
    "overwritten": _overwrite,
    "lost piece": _drop,
    "doubled piece": _double,
    "lengths": _lengths,
    "empty file": lambda _content, _random: bytearray(),
}


def _stop(_signal: int, _frame: object) -> None:
    raise TimeoutError(f"it took more than {TIME_LIMIT} s")


if __name__ == "__main__":
    sys.exit(main())
