"""Strict YAML settings, with checks of size, encoding, types and ranges; paths; atomic writes of files and folders."""

import errno
import itertools
import os
import re
import shutil
import stat
import tempfile
from argparse import ArgumentTypeError
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from reprlib import repr as brief
from typing import Annotated, Any, TypeVar

import msgspec
import yaml
from msgspec import Meta, inspect

from fcnet_core.errors import FcnetError, WriteError

SettingsT = TypeVar("SettingsT")
# Ranges of numbers in settings, all finite; in SI units no sensible value is outside of them.
Number = Annotated[float, Meta(ge=-1e6, le=1e6)]
NotNegative = Annotated[float, Meta(ge=0, le=1e6)]
Positive = Annotated[float, Meta(ge=1e-9, le=1e6)]
Share = Annotated[float, Meta(ge=0, lt=1)]
Count = Annotated[int, Meta(ge=1, le=10**9)]
Seed = Annotated[int, Meta(ge=0, le=2**40)]
Workers = Annotated[int, Meta(ge=1, le=1024)]  # threads or processes

CONFIG = Path(__file__).parent / "config"  # the suite's own settings
LARGEST_SETTINGS = 256 * 2**10  # [bytes] of one file; the suite's own have 4,000
DEEPEST = 50  # levels of YAML; deep nesting overflows libyaml's stack
MOST_ENTRIES = 100_000  # of YAML, after aliases are expanded
FULL = (errno.ENOSPC, errno.EDQUOT)
REMEDIES = dict.fromkeys(FULL, "make room, or choose another path") | {errno.EFBIG: "raise the limit, see `ulimit -f`"}
SMALLEST = 4096  # [bytes] that must be free where a file is to be written
HOME = re.compile(r"^\$(HOME|\{HOME\})(?=/|$)")
_MESSAGE = re.compile(r"(?P<what>.*?)( - at (`key` in )?`\$\.?(?P<place>.*)`)?", re.DOTALL)  # of msgspec


class _UniqueKeyLoader(yaml.CSafeLoader):
    """Rejects an entry that is given twice (YAML silently takes the last one), and reads 1e-9 as a number."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        if twice := [name for name, count in names.items() if count > 1]:
            raise ValueError(f"entry {twice[0]} is given twice, at line {node.start_mark.line + 1} and below")
        return super().construct_mapping(node, deep)


EXPONENT = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$")
_UniqueKeyLoader.add_implicit_resolver("tag:yaml.org,2002:float", EXPONENT, list("-+0123456789"))


def read_file(path: str | Path, what: str, most: int) -> bytes:
    """Read a regular file of at most `most` bytes. what: the kind of file in the message of a FcnetError.

    Reads only as many bytes as the file system reports: special files under /proc report none and may block.
    """
    try:
        facts = Path(path).stat()
        if not stat.S_ISREG(facts.st_mode) or not facts.st_size:
            raise FcnetError(f"{what} {path} is empty or not a regular file; give the path of one")
        if facts.st_size > most:
            raise FcnetError(f"{what} {path} has {facts.st_size} bytes, but must not have more than {most}")
        with Path(path).open("rb") as file:
            return file.read(facts.st_size)
    except OSError as error:
        raise FcnetError(f"{what} {path} cannot be read: {error.strerror}; give the path of one") from error


def parse_yaml(content: str | bytes, loader: type[yaml.CSafeLoader] | type[yaml.CBaseLoader]) -> Any:
    """Parse a YAML document in bounded time and memory. Raises ValueError and yaml.YAMLError."""
    depth = 0
    for event in yaml.parse(content, loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ValueError(f"it is nested more than {DEEPEST} deep")
        if (tag := getattr(event, "tag", None)) not in (None, "!"):
            raise ValueError(f"it has the tag {tag}, and no tag is allowed")
    document = yaml.load(content, loader)
    entries, pending = 1, [document]
    while pending:
        item = pending.pop()
        inner = list(item.values()) if isinstance(item, dict) else item if isinstance(item, list) else []
        if (entries := entries + len(inner)) > MOST_ENTRIES:
            raise ValueError(f"it has more than {MOST_ENTRIES} entries")
        pending += inner
    return document


def converted(content: Any, kind: type[SettingsT]) -> SettingsT:
    """Convert plain values to a `kind`, a msgspec Struct.

    The Struct's fields have types and ranges. It rejects unknown entries with forbid_unknown_fields=True, and anything
    else by a ValueError in __post_init__. Raises FcnetError with the entry, its value and what is allowed.
    """
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise FcnetError(_reason(str(error), content, kind)) from error


def read_settings(path: str | Path, kind: type[SettingsT], what: str) -> SettingsT:
    """Read the YAML file at `path` as a `kind`, see `converted`. what: the kind of file in error messages."""
    text = read_file(path, what, LARGEST_SETTINGS)
    try:
        content = parse_yaml(text.decode(), _UniqueKeyLoader)
    except UnicodeDecodeError as error:
        reason = f"byte {error.start} is 0x{text[error.start]:02x}, expected text in UTF-8"
    except (ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
    else:
        try:
            return converted(content, kind)
        except FcnetError as error:
            reason = str(error)
    raise FcnetError(f"{what} {path} cannot be used: {reason}; compare it with the suite's config/")


def preset(source: str | Path, folder: str, what: str) -> Path:
    """Return the file at that path or, if there is none, the file of that name in config/`folder`.

    what: the kind of file in the message of a FcnetError, raised if there is neither.
    """
    presets = {path.stem: path for path in (CONFIG / folder).glob("*.yaml")}
    if Path(source).exists():
        return Path(source)
    if str(source) not in presets:
        raise FcnetError(f"there is no {what} {source}; give the path of one, or a name: {', '.join(sorted(presets))}")
    return presets[str(source)]


def option(kind: Any) -> Callable[[str], Any]:
    """Return the argparse `type` of a number in the range of `kind`, such as Count."""

    def number(text: str) -> Any:
        try:
            return msgspec.convert(text, kind, strict=False)
        except msgspec.ValidationError as error:
            raise ArgumentTypeError(_reason(str(error), text, kind)) from error

    return number


def check_readable(path: str | Path) -> None:
    """Raise FcnetError unless the file at `path` can be read."""
    try:
        Path(path).open("rb").close()
    except OSError as error:
        raise FcnetError(f"{path} cannot be read: {error.strerror}; give the path of a file") from error


def expanded(text: str) -> str:
    """Return a path, or any other text, with a leading `~`, `~user` or `$HOME` replaced by that home folder.

    Raises FcnetError if there is none, instead of making a folder called `~`.
    """
    text = HOME.sub("~", text)
    try:
        return str(Path(text).expanduser()) if text.startswith("~") else text
    except RuntimeError as error:
        raise FcnetError(f"there is no home folder for {text}; write the whole path, or ./{text}") from error


@contextmanager
def writing(path: str | Path, remedy: str = "") -> Iterator[None]:
    """Raise WriteError for an OSError in this context. remedy: replaces that of the error number."""
    try:
        yield
    except BrokenPipeError:  # the reader of the output has exited
        raise
    except OSError as error:
        reason = error.reason if isinstance(error, WriteError) else error.strerror or str(error)
        if error.errno in FULL and not isinstance(error, WriteError):
            at = os.statvfs(_existing(Path(path)))
            reason += f", {at.f_bavail * at.f_frsize / 1e6:.2f} MB left there"
            reason += " but no inode for another file" if at.f_files and not at.f_favail else ""
        remedy = remedy or REMEDIES.get(error.errno or 0, "choose another path")
        raise WriteError(path, reason, remedy, error.errno) from error


def _existing(path: Path) -> Path:
    """Return the folder in which `path` is, or will be with folders of its own."""
    return next(parent for parent in path.absolute().parents if parent.exists())


def check_writable(*paths: str | Path | None) -> None:
    """Raise WriteError if `write_whole` could not write one of the paths; leave no file or folder behind."""
    for path in [Path(path) for path in paths if path]:
        with writing(path):
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, "it is a folder")
            with tempfile.TemporaryFile(dir=_existing(path)) as file:
                file.write(bytes(SMALLEST))


def write_whole(path: Path, content: bytes) -> None:
    """Write `content` to `path` atomically, by way of a temporary file in the same folder.

    Raises WriteError if writing fails. No temporary file stays behind then, or after Ctrl-C.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with partial.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder to fill; rename it to `folder` at the end, or delete it after an error.

    Raises FcnetError if `folder` exists: it is never overwritten.
    """
    _refuse_existing(folder)
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    try:
        with writing(folder):
            partial.mkdir(parents=True)
            yield partial
            _refuse_existing(folder)
            partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _refuse_existing(folder: Path) -> None:
    if folder.exists() or folder.is_symlink():
        raise FcnetError(f"{folder} exists already; name another folder, or delete that one")


def _reason(message: str, content: Any, kind: type[Any]) -> str:
    """Return msgspec's message about `content` with the entry, such as parts[...].push, its value and the choices.

    [...] is one entry of a mapping; its value is not known, so that of the mapping is shown.
    """
    what, place = _MESSAGE.fullmatch(message).group("what", "place")  # type: ignore[union-attr]  # matches every text
    if not what.startswith(("Expected", "Invalid", "Number")):
        return f"{place}: {what}" if place and place not in what else what
    names = re.findall(r"[^.\[\]]+|\[\d+\]|\[\.{3}\]", place or "")
    value = content
    for name in itertools.takewhile(lambda name: name != "[...]", names):
        value = value[int(name[1:-1]) if name[0] == "[" else name]
    if what.startswith("Invalid enum"):
        field = next((name for name in reversed(names) if name[0] != "["), "")
        choices = [str(choice) for owner, choice in _choices(inspect.type_info(kind)) if owner == field]
        what = f"expected one of {', '.join(choices)}"
    return f"{place or 'it'} is {brief(value)}, {what[0].lower()}{what[1:]}"


def _choices(info: inspect.Type, field: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value of the Literals in a type, with the name of the Struct's field that it is for."""
    yield from ((field, value) for value in getattr(info, "values", ()))
    for inner in getattr(info, "fields", ()):
        yield from _choices(inner.type, inner.encode_name)
    single = (getattr(info, name, None) for name in ("key_type", "value_type", "item_type"))
    for part in (*getattr(info, "types", ()), *getattr(info, "item_types", ()), *filter(None, single)):
        yield from _choices(part, field)
