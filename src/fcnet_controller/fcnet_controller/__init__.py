"""The ROS 2 controller that runs a policy on a legged robot, and what drives it by hand or by script."""
