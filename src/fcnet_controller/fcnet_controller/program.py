"""The console scripts of this package."""

from fcnet_ros.entry_point import entry_point

controller = entry_point("fcnet_controller.controller_node")
demo_course = entry_point("fcnet_controller.demo_course")
teleop_keyboard = entry_point("fcnet_controller.teleop_keyboard")
teleop_joy = entry_point("fcnet_controller.teleop_joy")
monitor = entry_point("fcnet_controller.monitor")
replay = entry_point("fcnet_controller.replay_node")
