"""Where the executables of this package begin.

Their imports take a second; Ctrl-C in that time ends them at once and without a traceback.
"""

from __future__ import annotations

import signal


def mujoco_bridge() -> None:
    """Run the MuJoCo bridge."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from sim_bridge.mujoco_bridge import main

    main()


def mujoco_board() -> int:
    """Run the simulated robot behind a motor board."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from sim_bridge.mujoco_board import main

    return main()


def isaac_playback() -> int:
    """Play a recorded rollout as a robot."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from sim_bridge.isaac_playback import main

    return main()
