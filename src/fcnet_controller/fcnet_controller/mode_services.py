"""The services by which a robot is told what to do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rclpy.node import Node
from std_srvs.srv import SetBool, Trigger

from fcnet_controller.control_core import ControlCore
from fcnet_controller.posture import Answer

INACTIVE = Answer(False, "the controller is not active; configure and activate it, or start it with auto_activate")
STILL_STOPPED = Answer(False, "a stop is not lifted like this: remove its cause, then call ~/reset")


class ModeServices:
    """~/stand_up, ~/walk, ~/lie_down, ~/reset and ~/emergency_stop; `active_core` gives None while inactive."""

    def __init__(self, node: Node, active_core: Callable[[], ControlCore | None]) -> None:
        self._active_core = active_core
        requests: dict[str, Callable[[ControlCore], Answer]] = {
            "stand_up": lambda core: core.stand_up(time.monotonic()),
            "walk": lambda core: core.walk(),
            "lie_down": lambda core: core.lie_down(),
            "reset": lambda core: core.reset(),
        }
        for name, request in requests.items():
            node.create_service(Trigger, f"~/{name}", self._handler(request))
        node.create_service(SetBool, "~/emergency_stop", self._stop)

    def _handler(self, request: Callable[[ControlCore], Answer]) -> Callable[[Any, Any], Any]:
        def handle(_request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
            core = self._active_core()
            return _fill(response, INACTIVE if core is None else request(core))

        return handle

    def _stop(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        core = self._active_core()
        if core is None:
            return _fill(response, INACTIVE)
        return _fill(response, core.emergency_stop() if request.data else STILL_STOPPED)


def _fill(response: Any, answer: Answer) -> Any:
    response.success, response.message = answer.accepted, answer.sentence
    return response
