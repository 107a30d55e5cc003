"""Events of processes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ProcessExited:
    """A process has ended with `returncode`, negative for the signal that ended it."""

    process_name: str
    returncode: int
