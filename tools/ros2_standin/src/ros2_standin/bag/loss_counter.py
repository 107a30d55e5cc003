"""Counts what did not arrive."""

from __future__ import annotations


class LossCounter:
    """Finds gaps in the sequence numbers of one topic's messages.

    Every publisher numbers its messages one after the other, but a message does not tell whose it is: it continues the
    publisher whose last number it follows, belongs to one that was not heard yet, or comes after a gap.
    """

    def __init__(self) -> None:
        self.lost = 0
        self.publishers = 1  # how many there are; the caller raises it
        self._last: list[int] = []

    def hear(self, number: int) -> None:
        """Take the number of the next message."""
        if number - 1 in self._last:
            self._last[self._last.index(number - 1)] = number
            return
        earlier = [last for last in self._last if last < number]
        if len(self._last) < self.publishers or not earlier:
            self._last.append(number)
            return
        closest = max(earlier)
        self.lost += number - closest - 1
        self._last[self._last.index(closest)] = number
