"""Damage to files, the same for the same seed: bytes of any file, values of settings, headers of model files."""

from __future__ import annotations

import copy
import json
import resource
import signal
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from fcnet_core.errors import FcnetError

Read = Callable[[Path], object]
MEMORY = 2**30  # [bytes] of address space for one file, beside what the process has
TIME_LIMIT = 5  # [s] for one file
ROOT = "file"  # under which a document is damaged, so that it may be replaced as a whole
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**12, -(10**30), 10**400, 0.5, 1e-30, 1e-320, 1e23, 1e300, 1e308),
    *(float("nan"), float("inf"), float("-inf"), "", "text", "1e3", "../../etc/passwd", "x" * 5000, "\x00", "\ud7ff"),
    *([], {}, [[]], [0] * 1000, {"": ""}, {1: 2}, {"x": {"x": {"x": []}}}, [None], [float("nan")] * 12, ["a", 1, 1]),
)
LENGTHS = (0, 1, 255, 2**16, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1)  # that a reader might trust
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


def read_damaged(path: Path, read: Read, files: int, seed: int = 0) -> Counter[str]:
    """Read damaged copies of `path`; count those that are used, refused, or raise another exception or take too long,
    which are printed with their seed.
    """
    counts: Counter[str] = Counter()
    kinds = {".safetensors": damaged_model, ".yaml": damaged_yaml}
    damage, content = kinds.get(path.suffix, damaged_bytes), path.read_bytes()
    with tempfile.TemporaryDirectory() as folder, _bounded() as begin:
        copy_of = Path(folder) / path.name
        for number in range(seed, seed + files):
            copy_of.write_bytes(damage(content, np.random.default_rng(number)))
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
    return counts


def damaged_bytes(content: bytes, random: np.random.Generator) -> bytes:
    """The file with one kind of damage."""
    damages = list(DAMAGES.values())
    return bytes(damages[below(random, len(damages))](bytearray(content), random))


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
    end = len(content) if random.random() < 0.5 else min(len(content), 2000)
    for at in random.integers(end, size=5).tolist():
        number = LENGTHS[below(random, len(LENGTHS))].to_bytes(8, "little")
        content[at : at + 8] = number[: len(content[at : at + 8])]
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
