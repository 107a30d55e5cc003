"""The subset of ROS 2's `launch_ros` that fcnet's launch files use."""

from launch.unknown_name import refuse_unknown_names

from . import actions, parameter_descriptions, substitutions

__getattr__ = refuse_unknown_names(__name__)

__all__ = ["actions", "parameter_descriptions", "substitutions"]
