"""How many cycles a controller says it has run: with each it sends targets, so that a bag that lacks some gives itself
away, and a cycle that was missed is not taken for one that the bag lacks.
"""

from __future__ import annotations

import struct

import numpy as np

from fcnet_core.bags.message_batch import MessageBatch
from fcnet_core.replay.recorded_run import CycleRecord

TOPIC = "/diagnostics"  # of all robots
KIND = "diagnostic_msgs/msg/DiagnosticArray"
LITTLE_ENDIAN = b"\x00\x01"
ENCAPSULATION = 4  # [bytes] before the content of every message; alignment counts from there
LONGEST = 18  # digits
MOST = 100_000  # messages: a day at one a second


class CycleCounts:
    """Finds them in serialised messages; looking at each of their many texts would take longer than the replay.

    namespace: of the robot.
    """

    def __init__(self, namespace: str) -> None:
        controller = f"{namespace.strip('/')}/controller: control".lstrip("/")
        self._status, self._key = _text(controller.encode()), _text(b"cycles")
        self._found: list[tuple[float, int]] = []

    def add(self, batch: MessageBatch) -> None:
        """Take messages of TOPIC."""
        if batch.kind != KIND or len(self._found) + len(batch.size) > MOST:
            return
        for received, message in zip(batch.received.tolist(), batch.messages(), strict=True):
            if (count := self._count(message)) is not None:
                self._found.append((received * 1e-9, count))

    def record(self) -> CycleRecord:
        """All that was found, in the order of their reception."""
        self._found.sort()
        return CycleRecord(
            np.array([received for received, _ in self._found], dtype=np.float64),
            np.array([count for _, count in self._found], dtype=np.int64),
        )

    def _count(self, message: bytes) -> int | None:
        status = message.find(self._status)
        key = message.find(self._key, status + len(self._status))
        if not message.startswith(LITTLE_ENDIAN) or min(status, key) < 0:
            return None
        place = key + len(self._key)
        place += (ENCAPSULATION - place) % 4
        digits = message[place + 4 : place + 4 + LONGEST].partition(b"\0")[0]
        return int(digits) if digits.isdigit() else None


def _text(text: bytes) -> bytes:
    """A string as CDR has it."""
    return struct.pack("<I", len(text) + 1) + text + b"\0"
