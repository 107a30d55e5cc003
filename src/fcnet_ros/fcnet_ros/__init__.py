"""Shared parts of all nodes: program, parameters, topics, health, and the hardware interface with its node.

This module imports no ROS: importing rclpy takes up to a second, and the handler of SIGINT must be set before.
"""

import importlib
import signal
import sys
from collections.abc import Callable
from pathlib import Path


def entry_point(module: str, *arguments: str, ros: bool = True) -> Callable[[], int]:
    """Return a console script that imports `module` and returns the exit code of its `main(*arguments)`.

    A SIGINT or the end of the launch ends its slow imports at once and without a traceback. ros: whether it needs ROS;
    an FcnetError or OSError, also about the environment of ROS, is printed and the exit code 2.
    """

    def run() -> int:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        from fcnet_core.cli import prepare_process, report_foreign_import
        from fcnet_core.errors import FcnetError
        from fcnet_ros.environment import check_environment
        from fcnet_ros.launched import end_with_launch  # here, as that module also runs as a program

        end_with_launch()
        prepare_process()
        name = Path(sys.argv[0]).name
        try:
            if ros:
                check_environment(name)  # before rclpy is imported, which for another middleware ends the process
            code: int = importlib.import_module(module).main(*arguments)
        except ImportError as error:
            return report_foreign_import(error)
        except (FcnetError, OSError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 2
        return code

    return run
