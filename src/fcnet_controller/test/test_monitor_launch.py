"""`monitor:=true`: a page beside the robot, and a robot that does not need the page."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.request

import pytest

PATIENCE = 60.0  # [s]


class Launch:
    """A robot's launch, and what it prints."""

    def __init__(self, folder, domain, *arguments):
        self._log = folder / "launch.log"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                ["ros2", "launch", "fcnet_controller", "aliengo.launch.py", *arguments],
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


def test_the_page_shows_the_robot_of_the_launch(launch):
    launched = launch("monitor:=true", "monitor_port:=0", "namespace:=dog")
    address = launched.until(r"open (http://\S+) in a browser")[1]
    launched.until("mode: walking")
    with urllib.request.urlopen(f"{address}/stream", timeout=PATIENCE) as stream:
        pictures = (json.loads(line[6:]) for line in stream if line.startswith(b"data:"))
        shown = next(picture for picture in pictures if picture.get("joints") and picture["targets"])
    assert shown["trunk"][2] > 0.2, "the robot stands"
    assert launched.end() == 0


def test_a_robot_goes_on_without_a_monitor_whose_port_is_taken(launch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        launched = launch("monitor:=true", f"monitor_port:={taken.getsockname()[1]}")
        launched.until("cannot listen at 127.0.0.1")
        launched.until(r"the monitor has ended \(exit code 2\); the others go on without it")
        launched.until("mode: walking")
    assert launched.end() == 0
