"""What holds for the tests of every package."""

from __future__ import annotations

import signal

import pytest

LONGEST = "sim_bridge"  # the package whose tests take longest

# A run that was started in the background ignores Ctrl-C, and so would every program that the tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with LONGEST where processes share the files of tests (pytest-xdist, `--dist loadfile`)."""
    if config.pluginmanager.hasplugin("xdist"):
        items.sort(key=lambda item: LONGEST not in item.path.parts)
