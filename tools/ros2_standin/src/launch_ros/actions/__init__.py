"""What a launch file can do with ROS nodes."""

from launch.unknown_name import refuse_unknown_names

from .node import Node
from .push_ros_namespace import PushRosNamespace
from .set_parameter import SetParameter

__getattr__ = refuse_unknown_names(__name__)

__all__ = ["Node", "PushRosNamespace", "SetParameter"]
