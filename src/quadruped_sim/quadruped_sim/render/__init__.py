"""Rendering: trajectories, appearance, camera and files."""
