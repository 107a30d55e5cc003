"""Reads a bag file of rosbag2's sqlite3 storage, up to damage.

The reader of `rosbags` is not used. It counts all messages before it returns the first, so it reads nothing of most
damaged files: of 60 damaged copies of a bag it read messages from 17, this reader from 39. It also limits neither the
size of a message nor the work for a row, but a hostile database can hold huge values and endless views.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from fcnet_core.errors import ReplayError
from fcnet_replay.bags.contents import Contents, Message, MessageBatch, batches_of, damage, unpacking_failed

LARGEST_MESSAGE = 16 * 2**20  # [bytes]
LARGEST_METADATA = 2**20  # [characters]
STEPS = 1_000_000  # of the database's virtual machine between two checks
LOGS = ("-wal", "-journal")  # endings of the files in which SQLite keeps what is not, or not yet, in the database
LONGEST_PATH = 400  # [bytes] SQLite opens none above 512
CHECKS = 300  # without a single row; a row of a bag takes a few hundred steps
UNREADABLE = (sqlite3.Error, UnicodeDecodeError, OverflowError)


def read_sqlite(path: Path, name: Path, wanted: frozenset[str] | None, contents: Contents) -> Iterator[MessageBatch]:
    """Yield the messages of these topics (None: all) in the order of recording, up to damage. name: of the file in
    errors.
    """
    with _opened(path) as database:
        yield from batches_of(_messages(database, name, wanted, contents))


def sqlite_metadata(path: Path) -> list[str]:
    """Return the YAML metadata that rosbag2 wrote into this file; nothing if it cannot be read."""
    with _opened(path) as database:
        try:
            if not database.has_table("metadata"):
                return []
            query = f"SELECT metadata FROM metadata WHERE length(metadata) <= {LARGEST_METADATA} LIMIT 9"
            return [str(text) for (text,) in database.execute(query)]
        except UNREADABLE:
            return []


@contextmanager
def _opened(path: Path) -> Iterator[_Database]:
    """Open a database, or a copy if it has a log, which SQLite merges where it lies. Raises ReplayError."""
    path = path.resolve()
    logs = [log for end in LOGS if (log := path.with_name(path.name + end)).is_file()]
    if not logs and len(os.fsencode(path)) <= LONGEST_PATH:
        with closing(_Database(path, "mode=ro&immutable=1")) as database:
            yield database
        return
    with TemporaryDirectory(prefix="fcnet-bag-") as folder:
        copy = Path(folder) / "bag.db3"
        try:
            for file in (path, *logs):
                with suppress(FileNotFoundError):  # a log that a recorder has just merged
                    if file.stat().st_size:  # special files have none
                        shutil.copyfile(file, f"{copy}{file.name[len(path.name) :]}")
        except OSError as error:
            raise ReplayError(unpacking_failed(path, Path(folder), error)) from error
        with closing(_Database(copy, "mode=rw")) as database:
            yield database


class _Database:
    """A database that aborts a query that works for long without a row. mode: parameters of SQLite's URI."""

    def __init__(self, path: Path, mode: str) -> None:
        self.idle = 0  # checks since the last row
        connection = sqlite3.connect(f"{path.as_uri()}?{mode}", uri=True)
        connection.set_progress_handler(self._check, STEPS)
        connection.execute("PRAGMA trusted_schema = OFF")
        self.execute, self.close = connection.execute, connection.close

    def has_table(self, name: str) -> bool:
        """Return whether this is an ordinary table. A view or a virtual table could run endless queries."""
        found = self.execute(f"SELECT type, sql FROM sqlite_master WHERE name = '{name}'").fetchone()
        return found is not None and found[0] == "table" and str(found[1]).upper().startswith("CREATE TABLE")

    def _check(self) -> bool:
        self.idle += 1
        return self.idle > CHECKS


def _topics(database: _Database, wanted: frozenset[str] | None, contents: Contents) -> dict[int, tuple[str, str]]:
    """Return name and type of the requested topics by number; fill `contents`."""
    for table in ("topics", "messages"):
        if not database.has_table(table):
            raise sqlite3.DatabaseError(f"it has no table {table}")
    topics: dict[int, tuple[str, str]] = {}
    for number, written, kind, form in database.execute("SELECT id, name, type, serialization_format FROM topics"):
        name = contents.add_topic(str(written), str(kind), str(form))
        if name and isinstance(number, int) and (wanted is None or name in wanted):
            topics[number] = name, str(kind)
    if database.has_table("message_definitions"):
        query = "SELECT topic_type, encoding, encoded_message_definition FROM message_definitions"
        for kind, encoding, text in database.execute(query):
            contents.definitions[str(kind)] = str(encoding), str(text)
    return topics


def _messages(database: _Database, name: Path, wanted: frozenset[str] | None, contents: Contents) -> Iterator[Message]:
    read = 0
    try:
        topics = _topics(database, wanted, contents)
        rows = database.execute(
            f"SELECT topic_id, timestamp, data FROM messages WHERE topic_id IN ({','.join(map(str, topics))}) "
            f"AND typeof(data) = 'blob' AND typeof(timestamp) = 'integer' AND length(data) <= {LARGEST_MESSAGE} "
            "ORDER BY id"
        )
        for read, (number, received, content) in enumerate(rows, 1):
            database.idle = 0
            yield topics[number], received, read, content
    except UNREADABLE as error:
        contents.problems.append(damage(name, None, f"after {read} messages the database says: {error}"))
