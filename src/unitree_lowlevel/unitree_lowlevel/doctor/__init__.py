"""Checks of network, board and robot that move nothing."""
