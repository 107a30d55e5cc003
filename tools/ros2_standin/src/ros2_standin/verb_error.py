"""The error of all verbs."""


class VerbError(Exception):
    """What the user asked for cannot be done; the text says why and what to do."""
