"""Actions of launch files with ROS nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Union

import yaml
from launch.actions import ExecuteProcess
from launch.core import LaunchContext, Reaction, SomeSubstitutions, perform

from .packages import find_executable

SomeParameters = Union[Mapping[str, Any], SomeSubstitutions, Path]


class Node(ExecuteProcess):
    """Starts a package's executable as a ROS node with a namespace, parameters and remappings.

    `parameters` is a list of YAML files and mappings from names to values; a later one wins.
    """

    def __init__(
        self,
        *,
        package: SomeSubstitutions,
        executable: SomeSubstitutions,
        namespace: SomeSubstitutions | None = None,
        parameters: Iterable[SomeParameters] | None = None,
        remappings: Iterable[tuple[SomeSubstitutions, SomeSubstitutions]] | None = None,
        arguments: Iterable[SomeSubstitutions] | None = None,
        additional_env: Mapping[str, SomeSubstitutions] | None = None,
        output: SomeSubstitutions = "log",
        sigterm_timeout: SomeSubstitutions = "5",
        on_exit: Reaction = None,
    ) -> None:
        super().__init__(
            cmd=[], additional_env=additional_env, output=output, sigterm_timeout=sigterm_timeout, on_exit=on_exit
        )
        self._package = package
        self._executable = executable
        self._namespace = namespace
        self._parameters = list(parameters or [])
        self._remappings = list(remappings or [])
        self._arguments = list(arguments or [])

    def execute(self, context: LaunchContext) -> None:
        """Start the executable; LookupError if the package does not have it."""
        program = find_executable(perform(context, self._package), perform(context, self._executable))
        self.cmd = [str(program), *self._arguments, "--ros-args"]
        if self._namespace is not None:
            self.cmd += ["-r", f"__ns:=/{perform(context, self._namespace).strip('/')}"]
        for item in self._parameters:
            self.cmd += ["--params-file", str(_parameter_file(context, item))]
        for source, target in self._remappings:
            self.cmd += ["-r", f"{perform(context, source)}:={perform(context, target)}"]
        super().execute(context)


def _parameter_file(context: LaunchContext, item: SomeParameters) -> Path:
    if isinstance(item, Mapping):
        return context.write_temporary_file(yaml.safe_dump({"/**": {"ros__parameters": dict(item)}}))
    path = item if isinstance(item, Path) else Path(perform(context, item))
    if not path.is_file():
        raise FileNotFoundError(f"parameter file {path} does not exist: check its name and build the workspace")
    return path.resolve()
