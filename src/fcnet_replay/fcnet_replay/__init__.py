"""Bags and recordings as runs, policies replayed over them, metrics, reports, and datasets made of them."""


class ReplayError(ValueError):
    """A bag, recording, mapping or option cannot be used; the message is one sentence that says what to do."""
