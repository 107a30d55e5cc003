"""A terminal: single key presses and a status line."""

import os
import re
import select
import shutil
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

KEY = re.compile("\x1b\\[[0-9;]*[A-Za-z~]|.", re.DOTALL)
NAMES = {" ": "space", "\x1b": "escape", "\x1b[A": "up", "\x1b[B": "down", "\x1b[C": "right", "\x1b[D": "left"}
BUFFER = 4096  # [bytes] that a terminal keeps
PLAIN_PERIOD = 1.0  # [s] between two lines without a terminal
LIVE_PERIOD = 0.1  # [s]
CLEAR_LINE = "\r\x1b[2K"


@contextmanager
def open_keyboard() -> Iterator[Callable[[float], list[str]]]:
    """Read keys without Enter and without echo within this context.

    Yields a function that returns the keys pressed within a time [s], named as in config/remote.yaml: lower-case
    characters and NAMES. Raises OSError if standard input is not a terminal.
    """
    if not sys.stdin.isatty():
        raise OSError("standard input is not a terminal; run it in a terminal, not from a launch file")
    file = sys.stdin.fileno()

    def keys(timeout: float) -> list[str]:
        ready, _, _ = select.select([file], [], [], timeout)
        content = os.read(file, BUFFER) if ready else b""
        if ready and not content:
            raise OSError("the terminal was closed")
        return [NAMES.get(key, key.lower()) for key in KEY.findall(content.decode(errors="ignore"))]

    before = termios.tcgetattr(file)
    tty.setcbreak(file)
    settings = termios.tcgetattr(file)
    settings[0] &= ~termios.IXON  # Ctrl-S would block the status line, and with it all keys
    settings[6][termios.VSUSP] = b"\0"  # after Ctrl-Z and fg a velocity would resume automatically
    termios.tcsetattr(file, termios.TCSANOW, settings)
    try:
        yield keys
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)


class StatusDisplay:
    """A status line: updated in place if stdout is a terminal, else printed once per second."""

    def __init__(self) -> None:
        self._live = sys.stdout.isatty()
        self._shown_at = float("-inf")

    def show(self, status: str) -> None:
        """Show `status` instead of the previous one, rate limited."""
        now = time.monotonic()
        if now - self._shown_at < (LIVE_PERIOD if self._live else PLAIN_PERIOD):
            return
        self._shown_at = now
        if self._live:
            width = shutil.get_terminal_size().columns
            # Returns the cursor to the left edge, where other log lines then start.
            print(f"{CLEAR_LINE}{status[: width - 1]}", end="\r", flush=True)
        else:
            print(status, flush=True)

    def print(self, text: str) -> None:
        """Print permanent lines."""
        print(f"{CLEAR_LINE}{text}" if self._live else text, flush=True)
