"""What every node shares: program, parameters, topics, health, and the hardware interface with its node.

This module imports nothing of ROS: importing rclpy takes up to a second, and a program's SIGINT must be set before.
"""

from __future__ import annotations

import importlib
import signal
from collections.abc import Callable


def entry_point(module: str, *arguments: str) -> Callable[[], int]:
    """Return a console script that imports `module` and returns the exit code of its `main(*arguments)`.

    A SIGINT ends its slow imports at once and without a traceback, and so does the end of the launch.
    """

    def run() -> int:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        from fcnet_ros.launched import end_with_launch  # here, because that module is also run as a program

        end_with_launch()
        code: int = importlib.import_module(module).main(*arguments)
        return code

    return run
