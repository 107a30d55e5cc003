"""Shared parts of all nodes: program, parameters, topics, health, and the hardware interface with its node.

This module imports no ROS: importing rclpy takes up to a second, and the handler of SIGINT must be set before.
"""

from __future__ import annotations

import importlib
import signal
from collections.abc import Callable


def entry_point(module: str, *arguments: str) -> Callable[[], int]:
    """Return a console script that imports `module` and returns the exit code of its `main(*arguments)`.

    A SIGINT or the end of the launch ends its slow imports at once and without a traceback.
    """

    def run() -> int:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        from fcnet_ros.launched import end_with_launch  # here, as that module also runs as a program

        end_with_launch()
        code: int = importlib.import_module(module).main(*arguments)
        return code

    return run
