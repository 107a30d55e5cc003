"""What the suite's launch files start."""

from __future__ import annotations



