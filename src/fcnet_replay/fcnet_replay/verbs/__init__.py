"""The `fcnet` verbs that read bags and datasets."""
