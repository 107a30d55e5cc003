"""The folder of the launch file."""

from __future__ import annotations

from ..launch_context import LaunchContext
from ..substitution import Substitution, SubstitutionFailure


class ThisLaunchFileDir(Substitution):
    """The folder of the launch file that is being visited."""

    def perform(self, context: LaunchContext) -> str:
        """Return the folder; SubstitutionFailure outside a launch file."""
        if context.current_launch_file is None:
            raise SubstitutionFailure("ThisLaunchFileDir is used outside a launch file")
        return str(context.current_launch_file.parent)

    def describe(self) -> str:
        """Return the name of this substitution."""
        return "ThisLaunchFileDir()"
