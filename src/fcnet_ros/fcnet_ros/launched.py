"""Ends a process with the launch that has started it, even where that is killed and can end nothing itself.

The process asks for it, because neither upstream's launch nor the stand-in's lets a launch file prepare a child before
it runs: the launch file gives its process id in the environment (`launched`), and Linux sends the process a signal when
its parent ends (PR_SET_PDEATHSIG), which is the thread that runs the launch, and again when another thread of a killed
launch inherits it and ends. A program of the suite asks in its entry point; any other is started through this module,
since the request outlasts exec: `python3 -m fcnet_ros.launched COMMAND ARGUMENT...`.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

LAUNCH = "FCNET_LAUNCH"  # environment variable: process id of the launch
PR_SET_PDEATHSIG = 1  # linux/prctl.h
SIGNAL = signal.SIGTERM  # unlike SIGINT nothing ignores it, in the background of a shell or while a program is imported


def launched() -> dict[str, str]:
    """Return the environment variables with which this process starts those that end with it."""
    return {LAUNCH: str(os.getpid())}


def end_with_launch() -> None:
    """Let this process get SIGNAL at the end of the launch that is named in its environment, if there is one.

    Children do not inherit the name. Where another program is in between (`ros2 launch --launch-prefix`), the signal
    comes at the end of that.
    """
    launch = os.environ.pop(LAUNCH, "")
    if not launch:
        return
    import ctypes  # only here: a program that was not launched starts without it

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGNAL)
    if int(launch) not in _ancestors():  # it had ended before the request
        os.kill(os.getpid(), SIGNAL)


def _ancestors() -> list[int]:
    """Return the process ids of parent, grandparent and so on."""
    found = [os.getppid()]
    while found[-1] > 1:
        fields = Path(f"/proc/{found[-1]}/stat").read_text().rpartition(")")[2].split()
        found.append(int(fields[1]))
    return found


if __name__ == "__main__":
    end_with_launch()
    os.execvp(sys.argv[1], sys.argv[1:])
