"""The subset of ROS 2's `launch` that fcnet's launch files use, for machines where ROS 2 came as wheels.

Names, arguments and behaviour are upstream's; what is not here is refused with a sentence, never ignored.
"""

from . import actions, conditions, event_handlers, events, launch_description_sources, substitutions
from .action import Action
from .launch_context import LaunchContext
from .launch_description import LaunchDescription
from .launch_service import LaunchService
from .substitution import Substitution
from .unknown_name import refuse_unknown_names

__getattr__ = refuse_unknown_names(__name__)

__all__ = [
    "Action",
    "LaunchContext",
    "LaunchDescription",
    "LaunchService",
    "Substitution",
    "actions",
    "conditions",
    "event_handlers",
    "events",
    "launch_description_sources",
    "substitutions",
]
