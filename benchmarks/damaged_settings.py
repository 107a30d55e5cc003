"""Reads damaged settings files and model files: each must be used, or refused in one sentence, fast, in little memory.

    python benchmarks/damaged_settings.py [--files 2000] [--seed 0]

Every settings file of config/ that is read into a Struct is damaged `--files` times, and so is the header of a model
file. Another exception, 5 s, or 1 GiB more of memory for a file end it with status 1.
"""

from __future__ import annotations

import argparse
import copy
import json
import resource
import signal
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from damaged_bags import DAMAGES, WORDS, below

from fcnet_core.errors import FcnetError
from fcnet_core.learning.config import load_train_config
from fcnet_core.model_file import load_model, shipped_model
from fcnet_core.remote import load_remote_map
from fcnet_core.robot import load_robot

Read = Callable[[Path], object]
CONFIG = Path(__file__).parents[1] / "config"
MEMORY = 2**30  # [bytes] of address space for one file, beside what the process has
TIME_LIMIT = 5  # [s] for one file
ROOT = "file"  # under which a document is damaged, so that it may be replaced as a whole
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**12, -(10**30), 10**400, 0.5, 1e-30, 1e-320, 1e23, 1e300, 1e308),
    *(float("nan"), float("inf"), float("-inf"), "", "text", "1e3", "../../etc/passwd", "x" * 5000, "\x00", "\ud7ff"),
    *([], {}, [[]], [0] * 1000, {"": ""}, {1: 2}, {"x": {"x": {"x": []}}}, [None], [float("nan")] * 12, ["a", 1, 1]),
)


def main() -> int:
    """Print how often what happened; 0 when nothing bad did."""
    from fcnet_replay.topic_map import load_topic_map
    from fcnet_teleop.remote import load_remote_control
    from quadruped_sim.collection import load_plan

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    sources: list[tuple[Path, Read]] = [
        *((path, load_train_config) for path in sorted((CONFIG / "train").glob("*.yaml"))),
        *((path, load_robot) for path in sorted((CONFIG / "robots").glob("*.yaml"))),
        *((path, load_plan) for path in sorted((CONFIG / "collect").glob("*.yaml"))),
        *((path, load_topic_map) for path in sorted((CONFIG / "bags").glob("*.yaml"))),
        *((CONFIG / "remote.yaml", read) for read in (load_remote_map, load_remote_control)),
        (shipped_model("aliengo"), load_model),
    ]
    failed = 0
    for path, read in sources:
        counts, longest = read_damaged(path, read, args.files, args.seed)
        outcomes = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
        print(f"{path.parent.name}/{path.name:<24} {read.__name__:<20} {outcomes}, at most {1e3 * longest:.0f} ms")
        failed += sum(count for what, count in counts.items() if what not in ("used", "refused"))
    return int(failed > 0)


def read_damaged(path: Path, read: Read, files: int, seed: int = 0) -> tuple[Counter[str], float]:
    """Read so many damaged copies of `path`: how often they were used, refused, or met another exception, which is
    printed with its seed; and the longest time [s] for one.
    """
    counts: Counter[str] = Counter()
    longest = 0.0
    damage, content = damaged_model if path.suffix == ".safetensors" else damaged_yaml, path.read_bytes()
    with tempfile.TemporaryDirectory() as folder, _bounded() as begin:
        copy_of = Path(folder) / path.name
        for number in range(seed, seed + files):
            copy_of.write_bytes(damage(content, np.random.default_rng(number)))
            began = time.perf_counter()
            begin()
            try:
                read(copy_of)
                what = "used"
            except FcnetError as error:
                sentence = str(error)
                what = "refused" if str(copy_of) in sentence and "\n" not in sentence else f"no sentence: {sentence}"
            except Exception as error:  # noqa: BLE001 - this is what is looked for
                what = f"{type(error).__name__}: {error}"
            finally:
                signal.alarm(0)
            if what not in ("used", "refused"):
                print(f"seed {number}, {path.name}: {what:.300}", file=sys.stderr)
            counts[what] += 1
            longest = max(longest, time.perf_counter() - began)
    return counts, longest


def damaged_yaml(content: bytes, random: np.random.Generator) -> bytes:
    """The text, or what it says, with one to three kinds of damage."""
    if random.random() < 0.3:
        damages = [*DAMAGES.values(), _insert]
        return bytes(damages[below(random, len(damages))](bytearray(content), random))
    return yaml.dump(_damaged(yaml.safe_load(content), random), allow_unicode=True, Dumper=yaml.CSafeDumper).encode()


def damaged_model(content: bytes, random: np.random.Generator) -> bytes:
    """A model file whose header, or the card in it, has one to three kinds of damage."""
    (length,) = struct.unpack_from("<Q", content)
    head, rest = content[8 : 8 + length], content[8 + length :]
    if random.random() < 0.3:
        head = bytes(DAMAGES["flipped bits"](bytearray(head), random))
    else:
        facts = json.loads(head)
        if random.random() < 0.7:
            facts["__metadata__"]["fcnet"] = json.dumps(_damaged(json.loads(facts["__metadata__"]["fcnet"]), random))
        else:
            facts = _damaged(facts, random)
        head = json.dumps(facts).encode()
    return struct.pack("<Q", len(head)) + head + rest


def _damaged(document: Any, random: np.random.Generator) -> Any:
    """Plain values of which one to three are replaced, renamed, left out or given again."""
    root = {ROOT: copy.deepcopy(document)}
    for _ in range(1 + below(random, 3)):
        holder: Any = root
        key: Any = ROOT
        while (inner := list(_entries(holder[key]))) and random.random() < 0.8:
            holder, key = holder[key], inner[below(random, len(inner))]
        kind = below(random, 5)
        if kind == 0 and holder is not root:
            del holder[key]
        elif kind == 1 and isinstance(holder[key], dict):
            holder[key]["colour"] = VALUES[below(random, len(VALUES))]
        elif kind == 2 and isinstance(holder[key], list):
            holder[key] *= 2
        else:
            holder[key] = copy.deepcopy(VALUES[below(random, len(VALUES))])
    return root[ROOT]


def _entries(value: Any) -> Iterator[Any]:
    yield from value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()


def _insert(content: bytearray, random: np.random.Generator) -> bytearray:
    """Words that YAML takes for more than a text, and bytes that are none."""
    tags = (b"!!bool x", b"!!timestamp x", b"2001-99-99", b"<<: 3\n")
    words = (*WORDS, *tags, b"[" * 20_000, b"{a: " * 5000, b"\xff", b"\t")
    at = below(random, len(content))
    content[at : at + below(random, 3)] = words[below(random, len(words))]
    return content


@contextmanager
def _bounded() -> Iterator[Callable[[], object]]:
    """Yield a function that gives the process TIME_LIMIT for what comes next; its memory is bounded by MEMORY."""

    def stop(_signal: int, _frame: object) -> None:
        raise TimeoutError(f"it took more than {TIME_LIMIT} s")

    before, limits = signal.signal(signal.SIGALRM, stop), resource.getrlimit(resource.RLIMIT_AS)
    has = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (has + MEMORY, limits[1]))
    try:
        yield lambda: signal.alarm(TIME_LIMIT)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
        signal.signal(signal.SIGALRM, before)


if __name__ == "__main__":
    sys.exit(main())
