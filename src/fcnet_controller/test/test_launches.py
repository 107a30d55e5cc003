"""Launches: a page shows the robot, which does not need it; every program ends with its launch, however that ends."""

import json
import os
import signal
import socket
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from ros_harness import Process, own_domain, wait_until

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


LAUNCH = "ros2 launch fcnet_controller aliengo.launch.py backend:=desk monitor:=true monitor_port:=0 record:=true"


@pytest.fixture
def recorded_launch(tmp_path):
    """A launch whose output goes through a pipe, as soon as its programs have been started; they are still starting."""
    with own_domain() as domain:
        command = ["bash", "-c", f"{LAUNCH} bag:={tmp_path / 'bag'} 2>&1 | tee {tmp_path / 'log'}"]
        with Process(command, domain) as process:
            process.until_printed(r"\[monitor-\d\]: process started")
            yield process


def end_launch_by_force(launch):
    (program,) = (number for number, line in launch.survivors().items() if "/ros2 launch" in line)
    os.kill(program, signal.SIGKILL)


def interrupt_as_a_terminal_does(launch):
    launch.send(signal.SIGINT)


@pytest.mark.parametrize(
    ("end", "when"), [(end_launch_by_force, "mode: standing_up"), (interrupt_as_a_terminal_does, "mode: |fault: ")]
)
def test_no_program_outlives_its_launch(recorded_launch, end, when):
    recorded_launch.until_printed(when)
    end(recorded_launch)
    wait_until(lambda: not recorded_launch.survivors(), lambda: f"the end of {recorded_launch.survivors()}")
    assert "escalating" not in recorded_launch.output
