"""Ends a process together with the launch that started it, even if the launch was killed.

The process requests this itself, because neither upstream's launch nor the stand-in's lets a launch file prepare a
child before it runs. The launch file passes its process id in the environment (`launched`). Linux then sends the
process a signal when its parent ends (PR_SET_PDEATHSIG): the thread that runs the launch, and any other thread of a
killed launch that inherits the child. Programs of the suite make the request in their entry point. Other programs are
started through this module, as the request survives exec: `python3 -m fcnet_ros.launched COMMAND ARGUMENT...`.
"""

import os
import signal
import sys
from pathlib import Path

LAUNCH = "FCNET_LAUNCH"  # environment variable: process id of the launch
PR_SET_PDEATHSIG = 1  # linux/prctl.h
SIGNAL = signal.SIGTERM  # unlike SIGINT it is not ignored in the background of a shell or during imports


def launched() -> dict[str, str]:
    """Return the environment variables for processes that are to end with this one."""
    return {LAUNCH: str(os.getpid())}


def end_with_launch() -> None:
    """Request SIGNAL for this process at the end of the launch named in its environment, if there is one.

    Children do not inherit the name. If another program is in between (`ros2 launch --launch-prefix`), the signal is
    sent at its end.
    """
    launch = os.environ.pop(LAUNCH, "")
    if not launch:
        return
    import ctypes  # slow, and only needed if launched

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGNAL)
    ancestor = os.getppid()
    while ancestor not in (int(launch), 0):  # the parent of process 1 is 0
        ancestor = int(Path(f"/proc/{ancestor}/stat").read_bytes().rpartition(b")")[2].split()[1])
    if not ancestor:  # the launch ended before the request
        os.kill(os.getpid(), SIGNAL)


if __name__ == "__main__":
    end_with_launch()
    os.execvp(sys.argv[1], sys.argv[1:])
