"""The few verbs of `ros2` that fcnet uses, where ROS 2 came as wheels."""
