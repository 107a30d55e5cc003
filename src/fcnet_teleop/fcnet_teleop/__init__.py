"""Remote control of a robot: keyboard, joystick, browser monitor, demo course; entry points of the executables."""

from fcnet_ros import entry_point

run_demo_course = entry_point("fcnet_teleop.demo_course")
run_teleop_keyboard = entry_point("fcnet_teleop.teleop_keyboard")
run_teleop_joy = entry_point("fcnet_teleop.teleop_joy")
run_monitor = entry_point("fcnet_teleop.monitor.node")
