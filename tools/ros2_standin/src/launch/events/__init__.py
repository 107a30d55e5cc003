"""Events of a launch."""

from ..unknown_name import refuse_unknown_names
from . import process
from .event import Event
from .shutdown import Shutdown
from .timer_event import TimerEvent

__getattr__ = refuse_unknown_names(__name__)

__all__ = ["Event", "Shutdown", "TimerEvent", "process"]
