"""Namespaces of groups."""

from __future__ import annotations

from launch.action import Action
from launch.conditions import Condition
from launch.launch_context import LaunchContext
from launch.substitution import SomeSubstitutions, perform

from ..namespace import join_namespaces


class PushRosNamespace(Action):
    """Puts the nodes of the surrounding group into a namespace."""

    def __init__(self, namespace: SomeSubstitutions, *, condition: Condition | None = None) -> None:
        super().__init__(condition=condition)
        self._namespace = namespace

    def execute(self, context: LaunchContext) -> None:
        """Extend the current namespace; an absolute one replaces it."""
        outer = context.launch_configurations.get("ros_namespace")
        context.launch_configurations["ros_namespace"] = join_namespaces(outer, perform(context, self._namespace))
