"""Keeps slow disks away from the reception of messages."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence

from .bag_writer import BagWriter, Received
from .recorded_topic import RecordedTopic

FLUSH_INTERVAL = 0.6  # [s]: with the time to write, a killed recorder has lost less than a second


class WriterThread:
    """Writes to a bag what other threads hand over, and flushes it regularly."""

    def __init__(self, bag: BagWriter, max_waiting: int) -> None:
        """Take up to `max_waiting` bytes that are not written yet."""
        self.error: OSError | None = None
        self.bag = bag
        self._max_waiting = max_waiting
        self._waiting = 0
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[RecordedTopic | Sequence[Received] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="bag_writer", daemon=True)
        self._thread.start()

    def add_topic(self, topic: RecordedTopic) -> None:
        """Make a topic known; before its first message."""
        self._queue.put(topic)

    def add(self, messages: Sequence[Received]) -> bool:
        """Hand over messages; return whether there was room for them."""
        size = _size(messages)
        with self._lock:
            if self._waiting and self._waiting + size > self._max_waiting:
                return False
            self._waiting += size
        self._queue.put(messages)
        return True

    def finish(self) -> None:
        """Write all that was handed over and end the bag; `error` tells whether that worked."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._write()
        except OSError as error:
            self.error = error
        try:
            self.bag.close()
        except OSError as error:
            self.error = self.error or error

    def _write(self) -> None:
        flushed = time.monotonic()
        while True:
            try:
                item = self._queue.get(timeout=max(0.0, flushed + FLUSH_INTERVAL - time.monotonic()))
            except queue.Empty:
                item = ()
            if item is None:
                return
            if isinstance(item, RecordedTopic):
                self.bag.add_topic(item)
            else:
                self.bag.add(item)
                with self._lock:
                    self._waiting -= _size(item)
            if time.monotonic() >= flushed + FLUSH_INTERVAL:
                self.bag.flush()
                flushed = time.monotonic()


def _size(messages: Sequence[Received]) -> int:
    return sum(len(message[3]) for message in messages)
