"""Command lines that `ros2 bag record` refuses."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="the stand-in alone, without ROS from wheels, has no bags")

from ros2_standin.program import main


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("-a", "-o", "{bag}"), 1, "output folder '{bag}' already exists"),
        (("-a", "-o", "{bag}/metadata.yaml/x"), 1, "cannot create the bag '{bag}/metadata.yaml/x': Not a directory"),
        (("-o", "x"), 1, "no topics to record"),
        (("-a", "--storage", "sqlite3"), 2, "invalid choice: 'sqlite3'"),
        (("-a", "--custom-data", "model"), 2, "'model' is not KEY=VALUE"),
        (("-a", "--services", "/x"), 2, "unrecognized arguments: --services"),
    ],
)
def test_a_recording_that_cannot_be_made_or_is_unknown_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments, code, words
):
    bag = tmp_path / "bag"
    bag.mkdir()
    (bag / "metadata.yaml").touch()
    monkeypatch.setattr(sys, "argv", ["ros2", "bag", "record", *(argument.format(bag=bag) for argument in arguments)])
    with pytest.raises(SystemExit) as ended:
        sys.exit(main())
    assert ended.value.code == code
    assert words.format(bag=bag) in capsys.readouterr().err
