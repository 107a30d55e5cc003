"""Actions of launch files with ROS nodes."""

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from launch import LaunchContext
from launch.actions import ExecuteProcess

from . import find_executable


class Node(ExecuteProcess):
    """Starts a package's executable as a ROS node with a namespace, parameters and remappings.

    `parameters` is a list of YAML files and mappings from names to values; a later one wins. process: further arguments
    of ExecuteProcess.
    """

    def __init__(
        self,
        *,
        package: str,
        executable: str,
        namespace: str | None = None,
        parameters: Iterable[Mapping[str, Any] | str | Path] | None = None,
        remappings: Iterable[tuple[str, str]] | None = None,
        arguments: Iterable[str] | None = None,
        **process: Any,
    ) -> None:
        super().__init__(cmd=[*(arguments or []), "--ros-args"], name=None, **process)
        self._package, self._executable = package, executable
        self._parameters = list(parameters or [])
        self.cmd += [] if namespace is None else ["-r", f"__ns:=/{namespace.strip('/')}"]
        self._remappings = [part for source, target in remappings or [] for part in ("-r", f"{source}:={target}")]

    def visit(self, context: LaunchContext) -> None:
        """Start the executable; LookupError if the package does not have it."""
        files = [part for item in self._parameters for part in ("--params-file", _parameter_file(context, item))]
        self.cmd = [str(find_executable(self._package, self._executable)), *self.cmd, *files, *self._remappings]
        super().visit(context)


def _parameter_file(context: LaunchContext, item: Mapping[str, Any] | str | Path) -> str:
    if isinstance(item, Mapping):
        file = tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="launch_params_", suffix=".yaml")  # noqa: SIM115
        context.files.enter_context(file)
        yaml.safe_dump({"/**": {"ros__parameters": dict(item)}}, file)
        file.flush()
        return file.name
    if not Path(item).is_file():
        raise FileNotFoundError(f"parameter file {item} does not exist: check its name and build the workspace")
    return str(Path(item).resolve())
