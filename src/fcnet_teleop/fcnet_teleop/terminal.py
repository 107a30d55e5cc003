"""Single key presses from a terminal, and a status line on it."""

from __future__ import annotations

import os
import re
import select
import sys
import termios
import time
import tty
from contextlib import suppress
from types import TracebackType

# Single key presses from a terminal.

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


# Shows a status line that changes in place on a terminal, and as an ordinary line once a second elsewhere.

PLAIN_INTERVAL = 1.0  # [s]
LIVE_INTERVAL = 0.1  # [s]
UNKNOWN_WIDTH = 80
CLEAR_LINE = "\r\x1b[2K"


class StatusDisplay:
    """Writes to the terminal at the path `terminal`; where that is empty, to stdout.

    A launch hands its children a pipe for stdout, so it tells them by this path where its own terminal is.
    """

    def __init__(self, terminal: str = "") -> None:
        self._terminal = _open_terminal(terminal)
        self._shown_at = float("-inf")

    def show(self, status: str) -> None:
        """Show `status` in place of the one before, unless that is too fresh."""
        now = time.monotonic()
        if now - self._shown_at < (PLAIN_INTERVAL if self._terminal is None else LIVE_INTERVAL):
            return
        self._shown_at = now
        if self._terminal is None:
            print(status, flush=True)
        else:
            width = os.get_terminal_size(self._terminal).columns or UNKNOWN_WIDTH
            # The cursor goes back to the left edge, so that a log line written meanwhile starts there.
            os.write(self._terminal, f"{CLEAR_LINE}{status[: width - 1]}\r".encode())

    def say(self, text: str) -> None:
        """Print lines that stay."""
        if self._terminal is not None:
            os.write(self._terminal, CLEAR_LINE.encode())
        print(text, flush=True)


def _open_terminal(path: str) -> int | None:
    """File descriptor of the terminal, if there is one."""
    if not path:
        return sys.stdout.fileno() if sys.stdout.isatty() else None
    with suppress(OSError):
        return os.open(path, os.O_WRONLY | os.O_NOCTTY)
    return None
