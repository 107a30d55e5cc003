"""`monitor:=true`: a page beside the robot, and a robot that does not need the page."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest

PATIENCE = 120.0  # [s]; a policy whose code has changed is compiled first


class Launch:
    """A launch, and what it prints."""

    def __init__(self, folder, domain, file, *arguments):
        self._log = folder / f"{file}.log"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                ["ros2", "launch", "fcnet_controller", file, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | {"ROS_DOMAIN_ID": str(domain)},
            )

    def until(self, pattern):
        deadline = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self._log.read_text())):
            assert self.process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.1)
        return found

    def end(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE)


@pytest.fixture
def launch(tmp_path, domain):
    launches = []

    def start(*arguments):
        launches.append(Launch(tmp_path, domain, *arguments))
        return launches[-1]

    yield start
    for launched in launches:
        if launched.process.poll() is None:
            launched.end()


def until_snapshot(launched, is_wanted):
    """The address of the launch's page, once it has shown what is wanted, and that snapshot."""
    address = launched.until(r"open (http://\S+) in a browser")[1]
    with urllib.request.urlopen(f"{address}/events", timeout=PATIENCE) as stream:
        snapshots = (json.loads(line[6:]) for line in stream if line.startswith(b'data: {"t"'))
        return address, next(snapshot for snapshot in snapshots if is_wanted(snapshot))


def test_the_page_shows_the_robot_of_the_launch_and_then_its_recording(launch, tmp_path):
    bag = tmp_path / "bag"
    robot = launch(
        "aliengo.launch.py", "monitor:=true", "monitor_port:=0", "namespace:=dog", "record:=true", f"bag:={bag}"
    )
    robot.until("mode: walking")
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
        launched.until("cannot listen at 127.0.0.1")
        launched.until(r"the monitor has ended \(exit code 2\); the other programs keep running without it")
        launched.until("mode: standing_up")
    assert launched.end() == 0
