"""Single keys from the terminal."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator

SPACE, UP, DOWN, RIGHT = " ", "\x1b[A", "\x1b[B", "\x1b[C"


class Keyboard:
    """Keys pressed in the terminal; without a terminal none ever is."""

    def __init__(self, file: int | None) -> None:
        self._file = file

    def wait(self, duration: float) -> str | None:
        """Return what is pressed within `duration` seconds."""
        if self._file is None:
            time.sleep(max(0.0, duration))
            return None
        if not select.select([self._file], [], [], max(0.0, duration))[0]:
            return None
        pressed = os.read(self._file, 8)
        if not pressed:  # the terminal is gone
            self._file = None
        return pressed.decode(errors="replace") or None


@contextlib.contextmanager
def open_keyboard(enabled: bool) -> Iterator[Keyboard]:
    """Give the terminal's keyboard, if this program runs in the foreground of one."""
    file = sys.stdin.fileno() if enabled and sys.stdin is not None and sys.stdin.isatty() else None
    if file is None or _in_background(file):
        yield Keyboard(None)
        return
    before = termios.tcgetattr(file)
    tty.setcbreak(file)
    try:
        yield Keyboard(file)
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)


def _in_background(file: int) -> bool:
    try:
        return os.tcgetpgrp(file) != os.getpgrp()
    except OSError:  # a terminal without job control
        return False
