"""Commands of a robot, limits of commands and joint targets, and timing of control loops."""
