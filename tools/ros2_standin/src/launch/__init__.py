"""The part of ROS 2's `launch` that fcnet's launch files and tests use, for machines where ROS 2 came as wheels.

Names, arguments and behaviour are upstream's; anything that is not here is refused with an error, never ignored.
"""

from . import actions, events, launch_description_sources, substitutions
from .core import (
    Action,
    LaunchContext,
    LaunchDescription,
    LaunchDescriptionEntity,
    Substitution,
)
from .launch_service import LaunchService

__all__ = [
    "Action",
    "LaunchContext",
    "LaunchDescription",
    "LaunchDescriptionEntity",
    "LaunchService",
    "Substitution",
    "actions",
    "events",
    "launch_description_sources",
    "substitutions",
]
