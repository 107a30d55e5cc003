"""The part of ROS 2's `launch_pytest` that fcnet's launch tests use: tests that run beside a launch."""

from . import actions, tools
from .plugin import fixture

__all__ = ["actions", "fixture", "tools"]
