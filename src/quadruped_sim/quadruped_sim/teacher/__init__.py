"""The teacher: an expert that acts on the robot's true state, made from the trot's example by PPO."""
