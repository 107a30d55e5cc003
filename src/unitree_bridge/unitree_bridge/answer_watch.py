"""Tells whoever waits for a robot that does not answer what to look at."""

from __future__ import annotations

PATIENCE = 3.0  # [s] without an answer before that is told
QUIET = 5.0  # [s] between two sentences


class AnswerWatch:
    """Watches how long ago the robot at `target` has said something that could be read."""

    def __init__(self, target: tuple[str, int], now: float) -> None:
        self._target = target
        self._told = now - QUIET

    def check(self, now: float, received: float, last_rejection: str) -> str | None:
        """A sentence when it is time for one; received: when the newest good state came, or waiting began [s]."""
        silence = now - received
        if silence < PATIENCE or now - self._told < QUIET:
            return None
        self._told = now
        host, port = self._target
        if last_rejection:
            return f"no state from {host}:{port} for {silence:.0f} s that could be read: {last_rejection}"
        return (
            f"no answer from {host}:{port} for {silence:.0f} s: check that the robot is on, its cable, the parameters "
            "network.target and network.port, and this computer's address (as 192.168.123.162/24); still waiting"
        )
