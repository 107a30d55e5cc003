"""Events of a launch."""

from ..core import Event

__all__ = ["Event", "Shutdown"]


class Shutdown(Event):
    """Launching ends: every process is asked to stop."""

    def __init__(self, *, reason: str = "reason not given") -> None:
        self.reason = reason
