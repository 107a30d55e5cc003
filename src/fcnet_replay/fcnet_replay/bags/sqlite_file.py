"""Reads a bag file of rosbag2's sqlite3 storage."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from fcnet_replay.bags.message_batch import BagError, DamagedBagError, MessageBatch, batch_of

MAGIC = b"SQLite format 3\0"
LARGEST_MESSAGE = 16 * 2**20  # [bytes]
LARGEST_METADATA = 2**20  # [characters]
ROWS = 1000  # read at a time
STEPS = 1_000_000  # of the database's machine between two looks at what it does
LOOKS = 300  # without a single row; a row of a bag takes a few hundred steps


@dataclass
class SqliteFile:
    """One db3 file. `batches` may be called once; the other fields fill while it runs.

    topics: wanted ones, None for all; name: what it is called in sentences, None: its path. problems: what could not be
    read; seen: every topic of the file and its type; definitions: encoding and text of every type that it defines.
    """

    path: Path
    topics: frozenset[str] | None = None
    name: Path | None = None
    problems: list[DamagedBagError] = field(default_factory=list)
    seen: dict[str, str] = field(default_factory=dict)
    definitions: dict[str, tuple[str, str]] = field(default_factory=dict)

    def batches(self) -> Iterator[MessageBatch]:
        """Every message of the wanted topics in the order of recording. Raises BagError for another kind of file."""
        with self.path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise BagError(
                    f"{self.name or self.path} is damaged at byte 0: it does not begin as an sqlite3 bag does"
                )
        self._rows = 0
        database = self._open()
        try:
            database.execute("PRAGMA trusted_schema = OFF")
            for table in ("topics", "messages"):
                if not _is_table(database, table):
                    raise sqlite3.DatabaseError(f"it has no table {table}")
            yield from self._messages(database, self._channels(database))
        except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
            self._damage(f"after {self._rows} messages the database says: {error}")
        finally:
            database.close()

    def metadata(self) -> list[str]:
        """What rosbag2 wrote about the bag into this file, as YAML; nothing where it cannot be read."""
        database = self._open()
        try:
            database.execute("PRAGMA trusted_schema = OFF")
            if not _is_table(database, "metadata"):
                return []
            found = database.execute(
                f"SELECT metadata FROM metadata WHERE length(metadata) <= {LARGEST_METADATA} LIMIT 9"
            )
            return [str(text) for (text,) in found]
        except (sqlite3.Error, UnicodeDecodeError, OverflowError):
            return []
        finally:
            database.close()

    def _open(self) -> sqlite3.Connection:
        """The database, which gives up by itself when it works for long without a row."""
        self._idle = 0
        database = sqlite3.connect(f"file:{self.path.resolve()}?mode=ro&immutable=1", uri=True)
        database.set_progress_handler(self._look, STEPS)
        return database

    def _channels(self, database: sqlite3.Connection) -> dict[int, tuple[str, str]]:
        found = database.execute("SELECT id, name, type FROM topics WHERE serialization_format = 'cdr'").fetchall()
        self.seen = {str(name): str(kind) for _, name, kind in found}
        if _is_table(database, "message_definitions"):
            told = database.execute("SELECT topic_type, encoding, encoded_message_definition FROM message_definitions")
            self.definitions = {str(kind): (str(encoding), str(text)) for kind, encoding, text in told}
        return {
            identity: (str(name), str(kind))
            for identity, name, kind in found
            if isinstance(identity, int) and (self.topics is None or name in self.topics)
        }

    def _messages(self, database: sqlite3.Connection, channels: dict[int, tuple[str, str]]) -> Iterator[MessageBatch]:
        wanted = ",".join(str(identity) for identity in channels)
        rows = database.execute(
            f"SELECT topic_id, timestamp, data FROM messages WHERE topic_id IN ({wanted}) AND typeof(data) = 'blob' "
            f"AND typeof(timestamp) = 'integer' AND length(data) <= {LARGEST_MESSAGE} ORDER BY timestamp, id"
        )
        error: sqlite3.Error | None = None
        while error is None:
            some: list[Any] = []
            try:
                for row in islice(rows, ROWS):
                    some.append(row)
                    self._idle = 0
            except sqlite3.Error as caught:
                error = caught
            self._rows += len(some)
            yield from self._batches(some, channels)  # what came before the damage is good
            if len(some) < ROWS:
                break
        if error is not None:
            raise error

    @staticmethod
    def _batches(rows: list[Any], channels: dict[int, tuple[str, str]]) -> Iterator[MessageBatch]:
        for identity in dict.fromkeys(row[0] for row in rows):
            mine = [row for row in rows if row[0] == identity]
            yield batch_of(*channels[identity], [row[1] for row in mine], [row[2] for row in mine])

    def _look(self) -> bool:
        """Whether the database is to give up: it has worked for long without a row."""
        self._idle += 1
        return self._idle > LOOKS

    def _damage(self, what: str) -> None:
        self.problems.append(DamagedBagError(self.name or self.path, None, what))


def _is_table(database: sqlite3.Connection, name: str) -> bool:
    """Whether it is a table of its own: a view or a virtual table could do anything, and for ever."""
    found = database.execute("SELECT type, sql FROM sqlite_master WHERE name = ?", (name,)).fetchone()
    return found is not None and found[0] == "table" and str(found[1]).upper().startswith("CREATE TABLE")
