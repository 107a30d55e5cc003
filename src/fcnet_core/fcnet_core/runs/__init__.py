"""Training runs: the folder of a run, its recorder, and trackers."""
