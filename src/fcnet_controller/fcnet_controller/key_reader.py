"""Single key presses from a terminal."""

from __future__ import annotations

import os
import re
import select
import sys
import termios
import tty
from types import TracebackType

KEY = re.compile("\x1b\\[[0-9;]*[A-Za-z~]|.", re.DOTALL)


class NoTerminalError(OSError):
    """Standard input is no terminal, so no key can be read."""


class KeyReader:
    """Reads keys without Enter and without echo while it is entered; leaving it restores the terminal."""

    def __init__(self) -> None:
        if not sys.stdin.isatty():
            raise NoTerminalError("standard input is no terminal; run it by itself in a terminal, not in a launch file")
        self._file = sys.stdin.fileno()

    def __enter__(self) -> KeyReader:
        self._before = termios.tcgetattr(self._file)
        tty.setcbreak(self._file)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        termios.tcsetattr(self._file, termios.TCSADRAIN, self._before)

    def keys(self, timeout: float) -> list[str]:
        """Keys pressed within `timeout` [s]: characters, or whole escape sequences such as an arrow's."""
        ready, _, _ = select.select([self._file], [], [], timeout)
        return KEY.findall(os.read(self._file, 64).decode(errors="ignore")) if ready else []
