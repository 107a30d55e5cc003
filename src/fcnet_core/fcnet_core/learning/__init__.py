"""Imitation: configuration, crops of recorded behaviour, the training loop and its checkpoints. Needs torch."""
