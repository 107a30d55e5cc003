"""Whatever a settings file holds: it is used, or refused in a sentence, in bounded time and memory."""

import os
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Annotated, Literal

import pytest
from damage import read_damaged
from msgspec import Meta, Struct

from fcnet_core.errors import FcnetError
from fcnet_core.files import LARGEST_SETTINGS, Count, Positive, Seed, check_writable, option, read_settings
from fcnet_core.learning.config import load_train_config
from fcnet_core.remote import load_remote_map
from fcnet_core.robot import load_robot

CONFIG = Path(__file__).parents[3] / "config"


class Part(Struct, frozen=True, forbid_unknown_fields=True):
    kind: Literal["flat", "rough"]
    height: Positive = 1.0


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    count: Annotated[int, Meta(ge=1, le=5)] = 1
    parts: dict[str, Part] = {}
    pair: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        if len(self.parts) > self.count:
            raise ValueError("there are more parts than count says")


def refusal(path: Path) -> str:
    with pytest.raises(FcnetError) as caught:
        read_settings(path, Settings, "settings file")
    sentence = str(caught.value)
    assert sentence.startswith(f"settings file {path} ") and "\n" not in sentence and len(sentence) < 600
    return sentence


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"count: 6", "count is 6, expected `int` <= 5"),
        (b"count: true", "count is True, expected `int`, got `bool`"),
        (b"count: 1e308", "count is 1e+308"),
        (b"parts: {a: {kind: lava}}", "expected one of flat, rough"),
        (b"parts: {a: {kind: flat, height: 0}}", "expected `float` >= 1e-09"),
        (b"parts: {a: {kind: flat, height: .inf}}", "expected `float` <= 1000000.0"),
        (b"parts: {a: {kind: flat}, b: {kind: flat}}", "there are more parts than count says"),
        (b"parts: {a: {kind: flat}, a: {kind: rough}}", "entry a is given twice"),
        (b"pair: [1, x]", "pair[1] is 'x'"),
        (b"pair: [1]", "pair is [1]"),
        (b"colour: red", "colour"),
        (b"- 1", "it is [1], expected `object`"),
        (b"count: [", "cannot be used"),
        (b"count: " + b"9" * 5000, "cannot be used"),
        (b"count: 2001-99-99", "cannot be used"),
        (b"count: !!bool x", "no tag is allowed"),
        (b"count: !!python/object/apply:os.system [x]", "no tag is allowed"),
        (b"? [1]\n: 2", "cannot be used"),
        (b"<<: 3", "cannot be used"),
        (b"\xff\xfe", "byte 0 is 0xff"),
        *((opening * 50_000, "nested") for opening in (b"[", b"{a: ", b"- ")),
        (b"a: &a [*a]", "entries"),
        (
            b"a: &a [1,1,1,1,1,1,1,1,1,1]\n"
            + b"".join(b"%c: &%c [%s]\n" % (c, c, b",".join([b"*%c" % (c - 1)] * 10)) for c in range(98, 110)),
            "entries",
        ),
        (b"x: [" + b"1," * 110_000 + b"]", "entries"),
        (b"#" * (LARGEST_SETTINGS + 1), f"must not have more than {LARGEST_SETTINGS}"),
        (b"", "empty"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_entry_value_and_what_is_allowed(tmp_path, content, named) -> None:
    path = tmp_path / "settings.yaml"
    path.write_bytes(content)
    assert named in refusal(path)


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "settings.yaml").open("wb") as file:
        file.truncate(2**40)
    assert str(2**40) in refusal(tmp_path / "settings.yaml")


def test_special_files_do_not_hold_the_reader_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/proc/kmsg")
    for path in (tmp_path / "pipe", tmp_path / "link", Path("/dev/zero"), tmp_path):
        assert "not a regular file" in refusal(path)
    assert "cannot be read" in refusal(tmp_path / "nothing.yaml")


def test_whether_a_file_can_be_written_is_known_beforehand(tmp_path: Path) -> None:
    check_writable(tmp_path / "new" / "folder" / "file")
    assert not list(tmp_path.iterdir())
    for path in (tmp_path, Path("/proc/nowhere/file")):
        with pytest.raises(FcnetError, match=f"{path} cannot be written"):
            check_writable(path)


@pytest.mark.parametrize(
    ("path", "read"),
    [
        *((path, load_train_config) for path in sorted((CONFIG / "train").glob("*.yaml"))),
        *((path, load_robot) for path in sorted((CONFIG / "robots").glob("*.yaml"))),
        (CONFIG / "remote.yaml", load_remote_map),
    ],
    ids=lambda value: getattr(value, "stem", ""),
)
def test_a_damaged_settings_file_is_used_or_refused_in_a_sentence(path, read) -> None:
    counts = read_damaged(path, read, files=50)
    assert counts["refused"]
    assert counts.keys() <= {"used", "refused"}


@pytest.mark.parametrize(
    ("kind", "text"), [(Seed, "-1"), (Seed, "1" + "0" * 30), (Seed, "1.5"), (Positive, "nan"), (Count, "true")]
)
def test_a_number_of_a_command_line_has_a_range_too(kind, text: str) -> None:
    with pytest.raises(ArgumentTypeError, match=rf"it is '{text[:5]}.*, expected `"):
        option(kind)(text)
    assert option(kind)("1") == 1
