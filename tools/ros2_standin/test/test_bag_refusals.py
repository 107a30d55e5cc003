"""What no verb of `ros2 bag` does."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="the stand-in alone, without ROS from wheels, has no bags")

from ros2_standin.program import main, make_parser


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("record", "-a", "-o", "{bag}"), "output folder '{bag}' already exists"),
        (
            ("record", "-a", "-o", "{bag}/metadata.yaml/x"),
            "cannot create the bag '{bag}/metadata.yaml/x': Not a directory",
        ),
        (("record", "-o", "x"), "no topics to record"),
        (("play", "{bag}x"), "there is no bag '{bag}x'"),
        (("play", "{bag}", "--topics", "/odd"), "has no topic to play"),
        (("play", "{bag}/.."), "is no bag: there is no metadata.yaml in it"),
    ],
)
def test_what_cannot_be_done_is_told(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    bag: Path,
    arguments: tuple[str, ...],
    sentence: str,
):
    monkeypatch.setattr(sys, "argv", ["ros2", "bag", *(argument.format(bag=bag) for argument in arguments)])
    assert main() == 1
    assert sentence.format(bag=bag) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("record", "-a", "--storage", "sqlite3"), "invalid choice: 'sqlite3'"),
        (("record", "-a", "--custom-data", "model"), "'model' is not KEY=VALUE"),
        (("record", "-a", "--services", "/x"), "unrecognized arguments: --services"),
        (("play", "x", "--rate", "0"), "0 is not a positive number"),
        (("play", "x", "--clock-topics-all"), "unrecognized arguments: --clock-topics-all"),
    ],
)
def test_what_is_unknown_is_refused(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str):
    with pytest.raises(SystemExit):
        make_parser().parse_args(["bag", *arguments])
    assert sentence in capsys.readouterr().err
