"""The controller over a recorded bag, through ROS."""
