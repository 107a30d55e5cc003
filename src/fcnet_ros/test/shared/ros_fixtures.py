"""Fixtures of tests with ROS nodes; a conftest.py imports those that its tests use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ros_harness import Client, own_domain


@pytest.fixture(scope="module")
def domain() -> Iterator[int]:
    """A ROS domain of this module's own."""
    with own_domain() as domain:
        yield domain


@pytest.fixture(scope="module")
def client(domain: int) -> Iterator[Client]:
    """A node that observes and commands."""
    with Client(domain) as client:
        yield client
