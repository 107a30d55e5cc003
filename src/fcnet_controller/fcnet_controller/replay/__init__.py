"""Replay of a bag through ROS."""
