"""Every program of a launch ends with it, however and whenever it ends."""

from __future__ import annotations

import os
import signal

import pytest
from ros_harness import Process, own_domain, wait_until

LAUNCH = "ros2 launch fcnet_controller aliengo.launch.py backend:=desk monitor:=true monitor_port:=0 record:=true"


@pytest.fixture
def launch(tmp_path):
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
    ("end", "when"),
    [(end_launch_by_force, "mode: standing_up"), (interrupt_as_a_terminal_does, "mode: ")],
)
def test_no_program_outlives_its_launch(launch, end, when):
    launch.until_printed(when)
    end(launch)
    wait_until(lambda: not launch.survivors(), lambda: f"the end of {launch.survivors()}")
    assert "escalating" not in launch.output
