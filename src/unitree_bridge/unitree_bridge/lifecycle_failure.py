"""Transitions that fail by an error which nobody expected."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn

AnyNode = TypeVar("AnyNode", bound=LifecycleNode)
Transition = Callable[[AnyNode, LifecycleState], TransitionCallbackReturn]


def told_failure(transition: Transition[AnyNode]) -> Transition[AnyNode]:
    """Let an exception in a transition be logged and be FAILURE: rclpy takes it without a word."""

    @wraps(transition)
    def tell(node: AnyNode, state: LifecycleState) -> TransitionCallbackReturn:
        try:
            return transition(node, state)
        except Exception:  # noqa: BLE001 whatever it is, it is told
            node.get_logger().fatal(f"{transition.__name__} has failed by an error\n{traceback.format_exc()}")
            return TransitionCallbackReturn.FAILURE

    return tell
