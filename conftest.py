"""What holds for the tests of every package."""

from __future__ import annotations

import signal

import pytest

# A run that was started in the background ignores Ctrl-C, and so would every program that the tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let pytest-xdist (`-n 2 --dist loadgroup`) run the tests of a package one after the other, in one process."""
    if config.pluginmanager.hasplugin("xdist"):
        for item in items:
            package = item.path.relative_to(config.rootpath).parts[1]
            item.add_marker(pytest.mark.xdist_group(package))
