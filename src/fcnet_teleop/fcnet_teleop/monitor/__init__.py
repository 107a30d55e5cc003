"""Shows a robot in browsers and lets people drive it from there."""

from __future__ import annotations



