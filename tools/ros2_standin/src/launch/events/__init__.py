"""Events of a launch."""
