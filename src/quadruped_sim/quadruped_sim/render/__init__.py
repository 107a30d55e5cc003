"""Rendering: trajectories, pictures and files."""
