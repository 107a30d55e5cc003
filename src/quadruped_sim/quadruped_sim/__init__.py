"""Quadrupeds in MuJoCo: robots, terrains, experts, collection and closed-loop evaluation."""


class SimulationError(ValueError):
    """A simulation cannot be set up, run, continued or compared; the message says what to do."""
