"""Where the executables of this package begin.

Their imports take a second; Ctrl-C in that time ends them at once and without a traceback.
"""

from __future__ import annotations

import signal


def controller() -> int:
    """Run the controller."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from fcnet_controller.controller_node import main

    return main()


def demo_course() -> int:
    """Run the demo."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from fcnet_controller.demo_course import main

    return main()


def teleop_keyboard() -> int:
    """Run the keyboard teleoperation."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from fcnet_controller.teleop_keyboard import main

    return main()


def teleop_joy() -> int:
    """Run the joystick teleoperation."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from fcnet_controller.teleop_joy import main

    return main()


def monitor() -> int:
    """Run the monitor in the browser."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from fcnet_controller.monitor import main

    return main()


def replay() -> int:
    """Run the replay of a bag."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from fcnet_controller.replay_node import main

    return main()
