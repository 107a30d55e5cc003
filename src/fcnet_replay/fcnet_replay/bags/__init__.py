"""Reads rosbag2 bags (mcap, sqlite3) and ROS 1 bags without ROS; rosbag2 bags also if damaged."""
