"""Quadrupeds in MuJoCo: robots, terrains, experts, collection and closed-loop evaluation."""
