"""The part of ROS 2's `launch_ros` that fcnet's launch files and tests use."""

from . import actions

__all__ = ["actions"]
