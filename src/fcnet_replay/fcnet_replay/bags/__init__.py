"""Reads rosbag2 bags (mcap, sqlite3) and ROS 1 bags without ROS; damaged rosbag2 bags up to the damage."""
