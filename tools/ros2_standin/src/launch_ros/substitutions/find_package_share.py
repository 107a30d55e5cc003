"""The share folder of a package."""

from __future__ import annotations

from launch.launch_context import LaunchContext
from launch.substitution import SomeSubstitutions, Substitution, normalize, perform

from ..executable_in_package import find_prefix


class FindPackageShare(Substitution):
    """The share folder of a package."""

    def __init__(self, package: SomeSubstitutions) -> None:
        self._package = normalize(package)

    def perform(self, context: LaunchContext) -> str:
        """Return the folder; LookupError if the package is not installed."""
        package = perform(context, self._package)
        return str(find_prefix(package) / "share" / package)

    def describe(self) -> str:
        """Return the package's name."""
        return f"FindPackageShare({' + '.join(part.describe() for part in self._package)})"
