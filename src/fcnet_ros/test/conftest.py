"""Fixtures of the harness."""

from ros_fixtures import domain as domain
from ros_fixtures import make_node as make_node
from ros_fixtures import run as run
