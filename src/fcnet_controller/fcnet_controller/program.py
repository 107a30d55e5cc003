"""The console scripts of this package."""

from fcnet_ros.entry_point import entry_point

controller = entry_point("fcnet_controller.controller_node")
replay = entry_point("fcnet_controller.replay.node")
