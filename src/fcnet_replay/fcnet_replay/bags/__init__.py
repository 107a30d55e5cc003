"""Reads rosbag2 bags without ROS: mcap and sqlite3, damaged ones as far as they go."""
