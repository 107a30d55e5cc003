"""A ROS node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from launch.actions import ExecuteProcess
from launch.conditions import Condition
from launch.event_handlers.event_handler import Reaction
from launch.launch_context import LaunchContext
from launch.substitution import SomeSubstitutions, perform

from ..executable_in_package import find_executable
from ..namespace import join_namespaces
from ..parameter_values import evaluate_parameters


class Node(ExecuteProcess):
    """Starts a package's executable as a ROS node with a name, a namespace, parameters and remappings.

    `parameters` is a list of YAML files and mappings; a later one wins. See ExecuteProcess for the rest.
    """

    def __init__(
        self,
        *,
        package: SomeSubstitutions,
        executable: SomeSubstitutions,
        name: SomeSubstitutions | None = None,
        namespace: SomeSubstitutions | None = None,
        parameters: Iterable[Mapping[str, Any] | SomeSubstitutions | Path] | None = None,
        remappings: Iterable[tuple[SomeSubstitutions, SomeSubstitutions]] | None = None,
        arguments: Iterable[SomeSubstitutions] | None = None,
        ros_arguments: Iterable[SomeSubstitutions] | None = None,
        exec_name: SomeSubstitutions | None = None,
        output: SomeSubstitutions = "log",
        additional_env: Mapping[str, SomeSubstitutions] | None = None,
        on_exit: Reaction = None,
        respawn: bool | SomeSubstitutions = False,
        respawn_delay: float | None = None,
        sigterm_timeout: SomeSubstitutions = "5",
        sigkill_timeout: SomeSubstitutions = "5",
        condition: Condition | None = None,
    ) -> None:
        super().__init__(
            cmd=[],
            name=exec_name,
            output=output,
            additional_env=additional_env,
            on_exit=on_exit,
            respawn=respawn,
            respawn_delay=respawn_delay,
            sigterm_timeout=sigterm_timeout,
            sigkill_timeout=sigkill_timeout,
            condition=condition,
        )
        self._package = package
        self._executable = executable
        self._node_name = name
        self._namespace = namespace
        self._parameters = list(parameters or [])
        self._remappings = list(remappings or [])
        self._arguments = list(arguments or [])
        self._ros_arguments = list(ros_arguments or [])

    def execute(self, context: LaunchContext) -> None:
        """Start the executable; LookupError if the package does not have it."""
        program = find_executable(perform(context, self._package), perform(context, self._executable))
        self.cmd = [str(program), *self._arguments]
        if self._ros_arguments:
            self.cmd += ["--ros-args", *self._ros_arguments]
        self.cmd += ["--ros-args", *self._identity(context), *self._parameter_arguments(context)]
        for source, target in self._remappings:
            self.cmd += ["-r", f"{perform(context, source)}:={perform(context, target)}"]
        super().execute(context)

    def _identity(self, context: LaunchContext) -> list[str]:
        found = [] if self._node_name is None else ["-r", f"__node:={perform(context, self._node_name)}"]
        inner = None if self._namespace is None else perform(context, self._namespace)
        namespace = join_namespaces(context.launch_configurations.get("ros_namespace"), inner)
        return found if namespace is None else [*found, "-r", f"__ns:={namespace}"]

    def _parameter_arguments(self, context: LaunchContext) -> list[str]:
        found = []
        for name, value in context.launch_configurations.get("global_params", []):
            found += ["-p", f"{name}:={yaml.safe_dump(value, default_flow_style=True).splitlines()[0]}"]
        for item in self._parameters:
            found += ["--params-file", str(self._parameter_file(context, item))]
        return found

    def _parameter_file(self, context: LaunchContext, item: Mapping[str, Any] | SomeSubstitutions | Path) -> Path:
        if isinstance(item, Mapping):
            values = evaluate_parameters(context, item)
            return context.write_temporary_file(yaml.safe_dump({"/**": {"ros__parameters": values}}))
        path = item if isinstance(item, Path) else Path(perform(context, item))
        if not path.is_file():
            raise FileNotFoundError(f"parameter file {path} does not exist: check its name and build the workspace")
        return path.resolve()
