"""What the suite's launch files start."""

from fcnet_ros.environment import check_environment

check_environment("launch")  # before rclpy is imported, which for another middleware ends the process
