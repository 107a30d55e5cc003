"""Hands pictures and news to every page that watches."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

Events = dict[str, bytes]  # by kind


class MonitorFeed:
    """Events by their kind. Of each kind a watcher gets the newest: one that is slow misses pictures, but none is late.

    Kinds that are `lasting` are told to whoever comes later, too.
    """

    def __init__(self, most: int = 16) -> None:
        self._condition = threading.Condition()
        self._watchers: list[Events] = []
        self._lasting: Events = {}
        self._most = most
        self._closed = False

    @property
    def watchers(self) -> int:
        """How many watch now."""
        return len(self._watchers)

    def tell(self, kind: str, content: bytes, lasting: bool = False) -> None:
        """Give an event to everybody who watches."""
        with self._condition:
            if lasting:
                self._lasting[kind] = content
            for watcher in self._watchers:
                watcher[kind] = content
            self._condition.notify_all()

    def close(self) -> None:
        """End every watch."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    @contextmanager
    def watch(self, patience: float) -> Iterator[Iterator[Events]]:
        """Iterate over what is new, by kind; over nothing when `patience` seconds went by without news.

        Raises FeedError where there are too many watchers.
        """
        with self._condition:
            if len(self._watchers) >= self._most:
                raise FeedError(f"{self._most} pages watch already; close one")
            watcher = dict(self._lasting)
            self._watchers.append(watcher)
        try:
            yield self._news(watcher, patience)
        finally:
            with self._condition:
                self._watchers = [other for other in self._watchers if other is not watcher]

    def _news(self, watcher: Events, patience: float) -> Iterator[Events]:
        while True:
            with self._condition:
                if not watcher and not self._closed:
                    self._condition.wait(patience)
                if self._closed:
                    return
                news = dict(watcher)
                watcher.clear()
            yield news


class FeedError(RuntimeError):
    """Nobody more can watch."""
