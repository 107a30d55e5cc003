"""Where the executables of the robots' packages begin.

Their imports take a second; Ctrl-C in that time ends them at once and without a traceback.
"""

from __future__ import annotations

import signal


def bridge(robot: str) -> int:
    """Run the bridge of the robot called `robot`."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from unitree_bridge.bridge_node import main

    return main(robot)


def fake_board(robot: str) -> int:
    """Run a motor board for the desk in place of the robot called `robot`."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from unitree_lowlevel.fake_board.program import main

    return main(robot)


def doctor(robot: str) -> int:
    """Check network, board and the robot called `robot`."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from unitree_lowlevel.doctor.program import main

    return main(robot)
