"""Datasets beyond collection: from bags, merged, split, described and checked."""

from __future__ import annotations




