"""Events of processes."""

from ...unknown_name import refuse_unknown_names
from .process_exited import ProcessExited
from .process_started import ProcessStarted

__getattr__ = refuse_unknown_names(__name__)

__all__ = ["ProcessExited", "ProcessStarted"]
