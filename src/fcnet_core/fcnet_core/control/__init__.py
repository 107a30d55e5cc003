"""Between what is asked of a robot and what its joints get: modes, commands and their limits, and the time of loops."""
