"""One bridge for a robot on this computer, whatever ROS knows."""

from __future__ import annotations

import errno
import socket


class RobotLock:
    """Held from `take` to `release`; the system releases it at once when its process dies.

    It is the name of a socket that nobody talks to: a file would outlive its owner.
    """

    def __init__(self) -> None:
        self._socket: socket.socket | None = None

    def take(self, target: tuple[str, int]) -> bool:
        """Take the robot at this address, host and port; False where another process of this computer has it."""
        held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            held.bind("\0fcnet-robot-{}:{}".format(*target))
        except OSError as error:
            held.close()
            if error.errno != errno.EADDRINUSE:
                raise
            return False
        self._socket = held
        return True

    def release(self) -> None:
        """Let others have the robot."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
