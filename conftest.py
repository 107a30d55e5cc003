"""What holds for the tests of every package."""

from __future__ import annotations

import signal

# A run that was started in the background ignores Ctrl-C, and so would every program that the tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
