"""The ROS 2 controller that runs a policy on a legged robot, with its console scripts."""

from fcnet_ros import entry_point

run_controller = entry_point("fcnet_controller.controller_node")
run_replay = entry_point("fcnet_controller.replay.node")
