"""Processes end with the launch that has started them, however it ends."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest

PATIENCE = 60.0  # [s], for a loaded machine
# Says its process id once it has made its request, and its exit code is 7 after the signal.
PROGRAM = """
import os, signal, sys, time
from fcnet_ros.launched import LAUNCH, SIGNAL, end_with_launch
signal.signal(SIGNAL, lambda number, frame: sys.exit(7))
{before}
end_with_launch()
print(os.getpid(), LAUNCH in os.environ, flush=True)
time.sleep(600)
"""
# Starts the command of its arguments and waits, as a launch does.
LAUNCH_PROGRAM = """
import os, subprocess, sys
from fcnet_ros.launched import launched
subprocess.run(sys.argv[1:], env=os.environ | launched())
"""
OTHER = "import os, time; print(os.getpid(), 'FCNET_LAUNCH' in os.environ, flush=True); time.sleep(600)"


@pytest.fixture
def launch():
    """Start a program that launches a command; the command has ended when nobody holds the launch's stdout open."""
    processes = []

    def launch(*command, wait_for_line=True):
        process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH_PROGRAM, *command], text=True, stdout=subprocess.PIPE, start_new_session=True
        )
        processes.append(process)
        return process, process.stdout.readline().split() if wait_for_line else []

    yield launch
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize(
    "command",
    [
        pytest.param([sys.executable, "-c", PROGRAM.format(before="")], id="a program of the suite"),
        pytest.param([sys.executable, "-m", "fcnet_ros.launched", sys.executable, "-c", OTHER], id="another program"),
    ],
)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_ends_with_its_launch_that_is_killed(launch, command, number):
    process, (_pid, inherits) = launch(*command)
    assert inherits == "False"
    process.send_signal(number)
    process.communicate(timeout=PATIENCE)  # returns at the end of all that hold the pipe


def test_a_process_that_asks_after_the_end_of_its_launch_ends_too(launch):
    waiting = "parent = os.getppid(); print('started', flush=True)\nwhile os.getppid() == parent: time.sleep(0.01)"
    process, (word,) = launch(sys.executable, "-c", PROGRAM.format(before=waiting))
    assert word == "started"
    process.kill()
    assert process.communicate(timeout=PATIENCE)[0] == ""


def test_a_process_behind_another_program_runs_on_while_its_launch_lives(launch):
    wrapper = "import subprocess, sys; subprocess.run(sys.argv[1:])"
    process, (pid, _) = launch(sys.executable, "-c", wrapper, sys.executable, "-c", PROGRAM.format(before=""))
    os.kill(int(pid), 0)
    process.kill()
