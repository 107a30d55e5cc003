"""Where the executables of this package begin: those that all of Unitree's quadrupeds share, for the Aliengo."""

from __future__ import annotations

from unitree_bridge import program

ROBOT = "aliengo"


def bridge() -> int:
    """Run the bridge."""
    return program.bridge(ROBOT)


def fake_board() -> int:
    """Run a motor board for the desk."""
    return program.fake_board(ROBOT)


def doctor() -> int:
    """Check network, board and robot; nothing moves."""
    return program.doctor(ROBOT)
