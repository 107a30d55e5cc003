"""The controller over a recorded bag, through ROS."""

from __future__ import annotations



