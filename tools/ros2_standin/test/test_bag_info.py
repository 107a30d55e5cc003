"""`ros2 bag info`, and what no verb of `ros2 bag` does."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="the stand-in alone, without ROS from wheels, has no bags")

from ros2_standin.program import main, make_parser


def test_info_is_laid_out_as_upstream(finish: Callable[..., tuple[int, str]], bag: Path):
    code, output = finish("bag", "info", str(bag), TZ="UTC")
    assert code == 0
    assert output.splitlines() == [
        "",
        "Files:             played_0.mcap",
        "                   played_1.mcap",
        f"Bag size:          {sum(file.stat().st_size for file in bag.glob('*.mcap')) / 1024:.1f} KiB",
        "Storage id:        mcap",
        "ROS Distro:        jazzy",
        "Duration:          1.990000000s",
        "Start:             Nov 14 2023 22:13:20.000000000 (1700000000.000000000)",
        "End:               Nov 14 2023 22:13:21.990000000 (1700000001.990000000)",
        "Messages:          202",
        "Topic information: Topic: /joints | Type: sensor_msgs/msg/JointState | Count: 200 | Serialization Format: cdr",
        "                   Topic: /mode | Type: std_msgs/msg/String | Count: 1 | Serialization Format: cdr",
        "                   Topic: /odd | Type: odd_msgs/msg/Odd | Count: 1 | Serialization Format: cdr",
        "Service:           0",
        "Service information: ",
    ]


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
        (("info", "{bag}/.."), "is no bag: there is no metadata.yaml in it"),
        (("info", "{bag}", "-s", "sqlite3"), "is stored as mcap, not as sqlite3"),
        (("reindex", "{bag}x"), "there is no bag folder '{bag}x'"),
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
        (("record", "-a", "--storage", "sqlite3"), "there is no storage 'sqlite3' to record to"),
        (("record", "-a", "--custom-data", "model"), "'model' is not KEY=VALUE"),
        (("record", "-a", "--services", "/x"), "unrecognized arguments: --services"),
        (("record", "-a", "--max-bag-size", "-1"), "-1 is negative"),
        (("play", "x", "--rate", "0"), "0 is not a positive number"),
        (("play", "x", "--clock", "--clock-topics-all"), "not allowed with argument"),
    ],
)
def test_what_is_unknown_is_refused(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str):
    with pytest.raises(SystemExit):
        make_parser().parse_args(["bag", *arguments])
    assert sentence in capsys.readouterr().err
