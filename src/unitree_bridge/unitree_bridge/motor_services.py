"""The services by which a bridge is stopped and set free again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rclpy.node import Node
from std_srvs.srv import SetBool, Trigger

from unitree_lowlevel.driver import MotorDriver

UNCONFIGURED = "the bridge is not configured and moves nothing; configure it, or start it with auto_start"
STILL_STOPPED = "a stop is not lifted like this: remove its cause, then call ~/reset"


class MotorServices:
    """~/reset and ~/emergency_stop; `connected_driver` gives None while there is no connection."""

    def __init__(self, node: Node, connected_driver: Callable[[], MotorDriver | None]) -> None:
        self._logger = node.get_logger()
        self._connected_driver = connected_driver
        node.create_service(Trigger, "~/reset", self._reset)
        node.create_service(SetBool, "~/emergency_stop", self._stop)

    def _reset(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        driver = self._connected_driver()
        if driver is None:
            return _fill(response, False, UNCONFIGURED)
        answer = driver.reset(time.monotonic())
        self._logger.info(answer.message)
        return _fill(response, answer.success, answer.message)

    def _stop(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        driver = self._connected_driver()
        if driver is None:
            return _fill(response, False, UNCONFIGURED)
        if not request.data:
            return _fill(response, False, STILL_STOPPED)
        driver.emergency_stop("asked for by ~/emergency_stop")
        return _fill(response, True, "stopped: the joints are damped until ~/reset")


def _fill(response: Any, accepted: bool, sentence: str) -> Any:
    response.success, response.message = accepted, sentence
    return response
