"""`monitor:=true`: a page that shows the robot, and a robot that does not need the page."""

from __future__ import annotations

import json
import socket
import time
import urllib.error
import urllib.request

import pytest
from ros_harness import processes

PATIENCE = 120.0  # [s]; a policy whose code has changed is compiled first


@pytest.fixture
def launch(domain):
    """Start a launch file of the suite, as a user does."""
    with processes(domain) as run:
        yield lambda *arguments: run(["ros2", "launch", "fcnet_controller", *arguments])


def until_snapshot(launched, matches):
    """Return the address of the launch's page and the first snapshot for which `matches` is true."""
    address = launched.until_printed(r"open (http://\S+) in a browser", PATIENCE)[1]
    with urllib.request.urlopen(f"{address}/events", timeout=PATIENCE) as stream:
        snapshots = (json.loads(line[6:]) for line in stream if line.startswith(b'data: {"t"'))
        return address, next(snapshot for snapshot in snapshots if matches(snapshot))


def test_the_page_shows_the_robot_of_the_launch_and_then_its_recording(launch, tmp_path):
    bag = tmp_path / "bag"
    robot = launch(
        "aliengo.launch.py", "monitor:=true", "monitor_port:=0", "namespace:=dog", "record:=true", f"bag:={bag}"
    )
    robot.until_printed("mode: walking", PATIENCE)
    _, shown = until_snapshot(robot, lambda snapshot: snapshot["joints"] and snapshot["targets"])
    assert shown["trunk"][2] > 0.2, "the robot stands"
    time.sleep(1.0)  # to be recorded
    assert robot.end() == 0
    replay = launch("replay.launch.py", f"bag:={bag}", "monitor:=true", "monitor_port:=0", "loop:=true")
    address, shown = until_snapshot(replay, lambda snapshot: snapshot["joints"] and snapshot["targets"])
    with pytest.raises(urllib.error.HTTPError, match="Forbidden"):
        urllib.request.urlopen(f"{address}/stop", b"", timeout=PATIENCE)
    assert replay.end() == 0


def test_a_robot_goes_on_without_a_monitor_whose_port_is_taken(launch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        launched = launch("aliengo.launch.py", "monitor:=true", f"monitor_port:={taken.getsockname()[1]}")
        launched.until_printed("cannot listen at 127.0.0.1", PATIENCE)
        launched.until_printed(r"the monitor has ended \(exit code 2\)")
        launched.until_printed("mode: standing_up", PATIENCE)
    assert launched.end() == 0
