"""Checks of states and targets, run in every cycle. A failed check is a Finding; the driver decides on the effect."""
