"""The console scripts of this package."""

from fcnet_ros import entry_point

demo_course = entry_point("fcnet_teleop.demo_course")
teleop_keyboard = entry_point("fcnet_teleop.teleop_keyboard")
teleop_joy = entry_point("fcnet_teleop.teleop_joy")
monitor = entry_point("fcnet_teleop.monitor.node")
