"""Unitree's low-level protocol, safety in front of its motors, and a fake motor board; no ROS."""
