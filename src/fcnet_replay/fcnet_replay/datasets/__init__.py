"""Datasets beyond collection: from bags, merged, split, described and checked."""
