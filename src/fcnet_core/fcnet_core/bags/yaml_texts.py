"""Reads YAML that came with a bag: nothing in it is made an object or a number, and no depth of it ends the program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml


def yaml_texts(content: bytes | str) -> Any:
    """The document as mappings, lists and texts. Raises yaml.YAMLError, ValueError, TypeError or RecursionError.

    libyaml's parser is ten times as fast as Python's, but its composer breaks the stack where nesting is deep.
    """
    events = (
        event
        for event in yaml.parse(content, yaml.CBaseLoader)
        if isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent)
    )
    return _value(next(events, None), events, {})


def _value(event: yaml.Event | None, events: Iterator[yaml.Event], anchors: dict[str, Any]) -> Any:
    value: Any
    if isinstance(event, yaml.AliasEvent):
        if event.anchor not in anchors:
            raise ValueError(f"*{event.anchor} stands for nothing")
        return anchors[event.anchor]
    if isinstance(event, yaml.ScalarEvent):
        value = event.value
    elif isinstance(event, yaml.SequenceStartEvent):
        value = _values(events, anchors)
    elif isinstance(event, yaml.MappingStartEvent):
        entries = _values(events, anchors)
        value = dict(zip(entries[::2], entries[1::2], strict=True))
    else:
        raise ValueError("it is empty")
    if event.anchor is not None:
        anchors[event.anchor] = value
    return value


def _values(events: Iterator[yaml.Event], anchors: dict[str, Any]) -> list[Any]:
    """Everything up to the end of a collection."""
    values = []
    while not isinstance(event := next(events), yaml.CollectionEndEvent):
        values.append(_value(event, events, anchors))
    return values
