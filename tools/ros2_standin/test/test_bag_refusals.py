"""What `ros2 bag record` refuses."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="the stand-in alone, without ROS from wheels, has no bags")

from ros2_standin.program import main


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("record", "-a", "-o", "{bag}"), "output folder '{bag}' already exists"),
        (
            ("record", "-a", "-o", "{bag}/metadata.yaml/x"),
            "cannot create the bag '{bag}/metadata.yaml/x': Not a directory",
        ),
        (("record", "-o", "x"), "no topics to record"),
    ],
)
def test_what_cannot_be_done_ends_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: tuple[str, ...],
    sentence: str,
):
    bag = tmp_path / "bag"
    bag.mkdir()
    (bag / "metadata.yaml").touch()
    monkeypatch.setattr(sys, "argv", ["ros2", "bag", *(argument.format(bag=bag) for argument in arguments)])
    assert main() == 1
    assert sentence.format(bag=bag) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("record", "-a", "--storage", "sqlite3"), "invalid choice: 'sqlite3'"),
        (("record", "-a", "--custom-data", "model"), "'model' is not KEY=VALUE"),
        (("record", "-a", "--services", "/x"), "unrecognized arguments: --services"),
    ],
)
def test_what_is_unknown_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str
):
    monkeypatch.setattr(sys, "argv", ["ros2", "bag", *arguments])
    with pytest.raises(SystemExit):
        main()
    assert sentence in capsys.readouterr().err
