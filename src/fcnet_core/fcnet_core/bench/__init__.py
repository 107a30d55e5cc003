"""Durations of control steps: `fcnet bench step`, and the timing that the scripts of papers/ share."""
