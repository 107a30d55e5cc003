"""The checks in front of the motors, run once per cycle. What fails is a Finding; the driver decides what follows."""
