"""Bags and recordings as runs, policies replayed over them, metrics, reports, and datasets made of them."""
