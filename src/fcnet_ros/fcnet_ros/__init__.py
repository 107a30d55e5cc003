"""What every node shares: program, parameters, topics, health, and the hardware interface with its node."""
