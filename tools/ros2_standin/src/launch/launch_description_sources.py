"""Sources of launch descriptions."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from .core import LaunchContext, LaunchDescription, SomeSubstitutions, perform


class PythonLaunchDescriptionSource:
    """A Python file with a function generate_launch_description."""

    def __init__(self, launch_file_path: SomeSubstitutions) -> None:
        self._path = launch_file_path

    def path(self, context: LaunchContext) -> Path:
        """Return the file; FileNotFoundError if there is none."""
        path = Path(perform(context, self._path)).resolve()
        if not path.is_file():
            raise FileNotFoundError(f"launch file {path} does not exist: check its name and build the workspace")
        return path

    def get_launch_description(self, context: LaunchContext) -> LaunchDescription:
        """Import the file and return its launch description."""
        path = self.path(context)
        spec = importlib.util.spec_from_file_location("launch_file", path)
        if spec is None or spec.loader is None:
            raise ValueError(f"{path} is not a Python launch file: the stand-in reads no others")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        if not hasattr(module, "generate_launch_description"):
            raise ValueError(f"{path} has no function generate_launch_description")
        return module.generate_launch_description()
