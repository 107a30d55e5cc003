"""Closed-loop evaluation: scenarios, trials, scores and result files."""
