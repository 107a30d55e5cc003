"""The mechanics of the four legs: where they are, what carries the robot, and how it rises and lies down."""
