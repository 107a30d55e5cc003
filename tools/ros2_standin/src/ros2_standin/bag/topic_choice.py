"""Which topics to record or to play."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..verb_error import VerbError


@dataclass(frozen=True)
class TopicChoice:
    """Topics by name, by type or by regular expression, and exceptions."""

    every: bool = False
    names: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    regex: str = ""
    exclude_names: tuple[str, ...] = ()
    exclude_types: tuple[str, ...] = ()
    exclude_regex: str = ""
    hidden: bool = False  # also topics with a part that starts with an underscore

    def __post_init__(self) -> None:
        for expression in (self.regex, self.exclude_regex):
            try:
                re.compile(expression)
            except re.error as error:
                raise VerbError(f"'{expression}' is no regular expression: {error}") from error

    def takes(self, name: str, kind: str) -> bool:
        """Return whether the topic `name` of type `kind` is chosen."""
        if name in self.exclude_names or kind in self.exclude_types:
            return False
        if self.exclude_regex and re.search(self.exclude_regex, name):
            return False
        if not self.hidden and "/_" in name:
            return False
        if self.every or name in self.names or kind in self.types:
            return True
        return bool(self.regex and re.search(self.regex, name))
