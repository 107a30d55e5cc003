"""What a page shows in words: mode, faults, diagnostics and the responses to its requests."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String

OUTDATED = 3.0  # [s] after which a status that is published every second no longer holds
REMOVED = 60.0  # [s] after which it is no longer shown
MAX_RESPONSES = 8
FAULT = "fault"  # a mode of the controller
LEVELS = ("ok", "warning", "error", "stale")
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


class RobotStatus:
    """The newest mode, robot fault, diagnostics and responses; used by the node's thread.

    on_fault: called when the controller enters fault.
    """

    def __init__(self, node: Node, controller: str, on_fault: Callable[[], None]) -> None:
        self._mode, self._on_fault = "", on_fault
        self._namespaces = ("", node.get_namespace().strip("/"))  # a driver's diagnostics have no namespace
        self._robot_fault = ""
        self._statuses: dict[str, tuple[float, dict[str, Any]]] = {}  # when received [s], and as JSON's types
        self._responses: deque[str] = deque(maxlen=MAX_RESPONSES)
        self._count = 0
        node.create_subscription(String, f"{controller}/mode", self._set_mode, LATCHED)
        node.create_subscription(String, "robot_fault", self._set_robot_fault, LATCHED)
        node.create_subscription(DiagnosticArray, "/diagnostics", self._set_diagnostics, 10)

    def add_response(self, message: str) -> None:
        """Take a response to what a page has requested."""
        self._count += 1
        self._responses.append(message)

    def as_json(self, now: float) -> dict[str, Any]:
        """Return all of it as JSON's types; now in monotonic seconds.

        faults: why the robot cannot be used. statuses: one for each of this robot's diagnostics, `old` where outdated.
        response_count: of all responses so far; `responses` has the last few.
        """
        self._statuses = {name: entry for name, entry in self._statuses.items() if now - entry[0] <= REMOVED}
        statuses = [{**status, "old": now - since > OUTDATED} for since, status in self._statuses.values()]
        return {
            "mode": self._mode,
            "faults": self._faults(statuses),
            "statuses": sorted(statuses, key=lambda status: status["name"]),
            "responses": list(self._responses),
            "response_count": self._count,
        }

    def _faults(self, statuses: list[dict[str, Any]]) -> list[str]:
        faults = [f"robot: {self._robot_fault}"] if self._robot_fault else []
        for status in statuses:
            node = status["name"].partition(":")[0]
            if status["old"]:
                faults.append(f"{node} has been silent for more than {OUTDATED:g} s")
            elif status["level"] == "error" and status["message"] != self._robot_fault:
                faults.append(f"{node}: {status['message']}")
        return faults

    def _set_mode(self, message: String) -> None:
        self._mode = message.data
        if self._mode == FAULT:
            self._on_fault()

    def _set_robot_fault(self, message: String) -> None:
        self._robot_fault = message.data

    def _set_diagnostics(self, message: DiagnosticArray) -> None:
        now = time.monotonic()
        for status in message.status:
            if status.name.partition(":")[0].strip("/").rpartition("/")[0] not in self._namespaces:
                continue  # of another robot
            level = status.level[0] if isinstance(status.level, bytes) else int(status.level)
            self._statuses[status.name] = now, {
                "name": status.name,
                "level": LEVELS[min(level, len(LEVELS) - 1)],
                "message": status.message,
                "values": {pair.key: pair.value for pair in status.values},
            }
