"""Events of a launch."""

from ..core import Event

__all__ = ["Event", "Shutdown"]


class Shutdown(Event):
    """Launching ends: every process is asked to stop."""

    def __init__(self, *, reason: str = "reason not given", due_to_sigint: bool = False) -> None:
        self.reason = reason
        self.due_to_sigint = due_to_sigint
