"""Reads a bag file of rosbag2's sqlite3 storage."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fcnet_core.bags.bag_error import BagError, DamagedBagError
from fcnet_core.bags.raw_message import RawMessage

MAGIC = b"SQLite format 3\0"


@dataclass
class SqliteFile:
    """One db3 file. `messages` may be called once; `problems` then tells what could not be read.

    topics: wanted ones, None for all.
    """

    path: Path
    topics: frozenset[str] | None = None
    problems: list[DamagedBagError] = field(default_factory=list)

    def messages(self) -> Iterator[RawMessage]:
        """Every message of the wanted topics in the order of recording. Raises BagError for another kind of file."""
        with self.path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise BagError(f"{self.path} is not an sqlite3 bag; give a bag that rosbag2 has recorded")
        database = sqlite3.connect(f"file:{self.path.resolve()}?mode=ro&immutable=1", uri=True)
        rows = 0
        try:
            channels = self._channels(database)
            for identity, received, data in self._rows(database):
                rows += 1
                if identity in channels and isinstance(data, bytes) and isinstance(received, int):
                    yield RawMessage(*channels[identity], received, data)
        except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
            what = f"after {rows} messages the database says: {error}"
            self.problems.append(DamagedBagError(self.path, 0, what))
        finally:
            database.close()

    def _channels(self, database: sqlite3.Connection) -> dict[int, tuple[str, str]]:
        found = database.execute("SELECT id, name, type FROM topics WHERE serialization_format = 'cdr'")
        return {
            identity: (str(name), str(kind))
            for identity, name, kind in found
            if self.topics is None or name in self.topics
        }

    @staticmethod
    def _rows(database: sqlite3.Connection) -> Iterator[tuple[int, int, bytes]]:
        yield from database.execute("SELECT topic_id, timestamp, data FROM messages ORDER BY timestamp, id")
