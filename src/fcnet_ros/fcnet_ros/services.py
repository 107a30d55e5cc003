"""The services of controllers and robots: a request is granted with a sentence or refused with one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from rclpy.node import Node
from std_srvs.srv import SetBool, Trigger

STOPPED = "stopped: the joints are damped until ~/reset"
STILL_STOPPED = "a stop is not lifted like this: remove its cause, then call ~/reset"


def create_request_services(
    node: Node, requests: Mapping[str, Callable[[], str]], emergency_stop: Callable[[], None] | None = None
) -> None:
    """Create the service ~/NAME for each request by name, and ~/emergency_stop where there is one.

    A request returns a sentence, or raises ValueError with one, which is the response of a refusal.
    """

    def respond(request: Callable[[], str], response: Any) -> Any:
        try:
            response.message, response.success = request(), True
        except ValueError as refusal:
            response.message = str(refusal)
        node.get_logger().info(response.message)
        return response

    for name, request in requests.items():
        node.create_service(Trigger, f"~/{name}", lambda _, response, request=request: respond(request, response))
    if emergency_stop is not None:
        node.create_service(
            SetBool,
            "~/emergency_stop",
            lambda request, response: respond(partial(_stop, emergency_stop, request.data), response),
        )


def _stop(emergency_stop: Callable[[], None], wanted: bool) -> str:
    if not wanted:
        raise ValueError(STILL_STOPPED)
    emergency_stop()
    return STOPPED
