"""Checks of computer, network, board and robot without motion."""
