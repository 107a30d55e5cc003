"""The one error of this package."""


class ReplayError(ValueError):
    """A bag, recording, mapping or option cannot be used; the message is one sentence that says what to do."""
