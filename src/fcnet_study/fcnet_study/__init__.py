"""Comparisons of policies: how fast they step and train, what they need of data, where the energy of signals is, which
joint looks at which.
"""

from __future__ import annotations

from fcnet_core import FcnetError


class StudyError(FcnetError):
    """A comparison that cannot be made as asked."""
