"""A simulated quadruped behind the topics of a real one."""
