"""Handlers of events."""

from ..unknown_name import refuse_unknown_names
from .event_handler import EventHandler
from .on_process_exit import OnProcessExit
from .on_process_start import OnProcessStart
from .on_shutdown import OnShutdown

__getattr__ = refuse_unknown_names(__name__)

__all__ = ["EventHandler", "OnProcessExit", "OnProcessStart", "OnShutdown"]
