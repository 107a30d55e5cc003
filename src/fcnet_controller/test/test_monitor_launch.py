"""`monitor:=true`: a page that shows the robot, and a robot that does not need the page."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from pathlib import Path

import pytest

BAG = Path(__file__).resolve().parents[3] / "docs" / "examples" / "aliengo_walk"
PATIENCE = 120.0  # [s]; a policy whose code has changed is compiled first


def until_shown(launched):
    """Return the address of the launch's page and its first snapshot of a robot with targets."""
    address = launched.until_printed(r"open (http://\S+) in a browser", PATIENCE)[1]
    with urllib.request.urlopen(f"{address}/events", timeout=PATIENCE) as stream:
        snapshots = (json.loads(line[6:]) for line in stream if line.startswith(b'data: {"t"'))
        return address, next(snapshot for snapshot in snapshots if snapshot["joints"] and snapshot["targets"])


def test_the_page_shows_the_robot_of_the_launch(launch):
    robot = launch("aliengo.launch.py", monitor="true", monitor_port=0, namespace="dog")
    robot.until_printed("mode: walking", PATIENCE)
    _, shown = until_shown(robot)
    assert shown["trunk"][2] > 0.2, "the robot stands"
    assert robot.end() == 0


def test_the_page_shows_a_recording_and_cannot_stop_it(launch):
    replay = launch("replay.launch.py", bag=BAG, monitor="true", monitor_port=0, loop="true")
    address, _ = until_shown(replay)
    with pytest.raises(urllib.error.HTTPError) as refusal:
        urllib.request.urlopen(f"{address}/stop", b"", timeout=PATIENCE)
    assert refusal.value.code == 403
    assert replay.end() == 0


def test_a_robot_goes_on_without_a_monitor_whose_port_is_taken(launch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        launched = launch("aliengo.launch.py", monitor="true", monitor_port=taken.getsockname()[1])
        launched.until_printed("cannot listen at 127.0.0.1", PATIENCE)
        launched.until_printed(r"the monitor has ended \(exit code 2\)")
        launched.until_printed("mode: standing_up", PATIENCE)
    assert launched.end() == 0
