"""What launch tests wait for."""

from . import process

__all__ = ["process"]
