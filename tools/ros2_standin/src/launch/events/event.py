"""The base of all events."""


class Event:
    """Something that happened, for the event handlers."""
