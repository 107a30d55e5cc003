"""What stands between a command and the motors: limits, watchdogs, and trips that latch."""
