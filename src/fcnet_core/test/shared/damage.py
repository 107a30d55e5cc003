"""Damage to files, the same for the same seed: bytes of any file, values of settings, headers of model files."""

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
from random import Random
from typing import Any

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
WORDS = (  # that YAML takes for more than a text, and bytes that are none
    *(b"!!python/object/apply:os.system ['false']", b"!!bool x", b"!!timestamp x", b"2001-99-99", b"<<: 3\n", b"null"),
    *(b"*a", b"&a [*a, *a]", b"{{{{", b"[" * 20_000, b"{a: " * 5000, b"- ", b"9" * 400, b"\0", b"\xff", b"\t"),
)


def read_damaged(path: Path, read: Read, files: int) -> Counter[str]:
    """Read damaged copies of `path`; count those that are used, refused, or raise another exception or take too long,
    which are printed with their seed.
    """
    counts: Counter[str] = Counter()
    kinds = {".safetensors": _damaged_model, ".yaml": _damaged_yaml}
    damage, content = kinds.get(path.suffix, damaged_bytes), path.read_bytes()
    with tempfile.TemporaryDirectory() as folder, _bounded() as begin:
        copy_of = Path(folder) / path.name
        for seed in range(files):
            copy_of.write_bytes(damage(content, Random(seed)))
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
                print(f"seed {seed}, {path.name}: {what:.300}", file=sys.stderr)
            counts[what] += 1
    return counts


def damaged_bytes(content: bytes, random: Random) -> bytes:
    """The file with one kind of damage."""
    return bytes(random.choice(DAMAGES)(bytearray(content), random))


def _damaged_yaml(content: bytes, random: Random) -> bytes:
    """The text, or what it says, with one to three kinds of damage."""
    if random.random() < 0.3:
        return bytes(random.choice((*DAMAGES, insert_word))(bytearray(content), random))
    return yaml.dump(_damaged(yaml.safe_load(content), random), allow_unicode=True, Dumper=yaml.CSafeDumper).encode()


def _damaged_model(content: bytes, random: Random) -> bytes:
    """A model file whose header, or the card in it, has one to three kinds of damage."""
    (length,) = struct.unpack_from("<Q", content)
    head, rest = content[8 : 8 + length], content[8 + length :]
    if random.random() < 0.3:
        head = bytes(flip_bits(bytearray(head), random))
    else:
        facts = json.loads(head)
        if random.random() < 0.7:
            facts["__metadata__"]["fcnet"] = json.dumps(_damaged(json.loads(facts["__metadata__"]["fcnet"]), random))
        else:
            facts = _damaged(facts, random)
        head = json.dumps(facts).encode()
    return struct.pack("<Q", len(head)) + head + rest


def _damaged(document: Any, random: Random) -> Any:
    """Plain values of which one to three are replaced, renamed, left out or given again."""
    root = {ROOT: copy.deepcopy(document)}
    for _ in range(random.randint(1, 3)):
        holder: Any = root
        key: Any = ROOT
        while isinstance(holder[key], dict | list) and holder[key] and random.random() < 0.8:
            holder = holder[key]
            key = random.choice(list(holder)) if isinstance(holder, dict) else random.randrange(len(holder))
        kind = random.randrange(5)
        if kind == 0 and holder is not root:
            del holder[key]
        elif kind == 1 and isinstance(holder[key], dict):
            holder[key]["colour"] = random.choice(VALUES)
        elif kind == 2 and isinstance(holder[key], list):
            holder[key] *= 2
        else:
            holder[key] = copy.deepcopy(random.choice(VALUES))
    return root[ROOT]


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


def insert_word(content: bytearray, random: Random) -> bytearray:
    at = random.randrange(len(content))
    content[at : at + random.randrange(40)] = random.choice(WORDS)
    return content


def cut_off(content: bytearray, random: Random) -> bytearray:
    """The beginning of a file, or nothing."""
    return content[: random.choice((0, random.randrange(len(content)), random.randrange(len(content))))]


def flip_bits(content: bytearray, random: Random) -> bytearray:
    """Flip bits anywhere, or near the beginning, where a file says how it is built."""
    end = len(content) if random.random() < 0.7 else min(len(content), 4000)
    for _ in range(random.randrange(1, 20)):
        content[random.randrange(end)] ^= 1 << random.randrange(8)
    return content


def change_piece(content: bytearray, random: Random) -> bytearray:
    """Overwrite, lose or double a piece."""
    at = random.randrange(len(content))
    piece = content[at : at + random.randrange(1, 5000)]
    content[at : at + len(piece)] = random.choice((random.randbytes(len(piece)), b"", piece * 2))
    return content


def change_lengths(content: bytearray, random: Random) -> bytearray:
    end = len(content) if random.random() < 0.5 else min(len(content), 2000)
    for _ in range(5):
        at = random.randrange(end)
        number = random.choice(LENGTHS).to_bytes(8, "little")
        content[at : at + 8] = number[: len(content) - at]
    return content


DAMAGES = (cut_off, cut_off, flip_bits, flip_bits, change_piece, change_piece, change_piece, change_lengths)
