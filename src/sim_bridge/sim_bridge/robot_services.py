"""The services with which a simulated robot is pushed and put back."""

from __future__ import annotations

from typing import Protocol

from rcl_interfaces.msg import FloatingPointRange, ParameterDescriptor
from rclpy.node import Node
from std_srvs.srv import Trigger

PUSH_DIRECTIONS = {"random": None, "forward": 0.0, "left": 1.5707963, "backward": 3.1415927, "right": -1.5707963}


class Movable(Protocol):
    """A robot that can be pushed and put back; both may be called from any thread."""

    def push(self, speed: float, direction: float | None) -> float:
        """See LiveRobot.push."""
        ...

    def reset(self) -> None:
        """See LiveRobot.reset."""
        ...


class RobotServices:
    """~/push, with the parameters push_speed and push_direction, and ~/reset of the node with this robot."""

    def __init__(self, node: Node, robot: Movable, start: str) -> None:
        self._node = node
        self._robot = robot
        self._start = start
        speeds = [FloatingPointRange(from_value=0.0, to_value=3.0, step=0.0)]
        speed = "change of the trunk's velocity by ~/push [m/s]"
        side = f"where ~/push pushes: {', '.join(PUSH_DIRECTIONS)}"
        node.declare_parameter("push_speed", 0.5, ParameterDescriptor(description=speed, floating_point_range=speeds))
        node.declare_parameter("push_direction", "random", ParameterDescriptor(description=side))
        node.create_service(Trigger, "~/push", self._push)
        node.create_service(Trigger, "~/reset", self._reset)

    def _push(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        speed = self._node.get_parameter("push_speed").value
        side = self._node.get_parameter("push_direction").value
        if side not in PUSH_DIRECTIONS:
            response.message = f"push_direction is {side!r}; choose one of {', '.join(PUSH_DIRECTIONS)}"
            return response
        direction = self._robot.push(speed, PUSH_DIRECTIONS[side])
        response.success = True
        response.message = f"pushed with {speed:g} m/s towards {direction:.2f} rad from its heading"
        return response

    def _reset(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self._robot.reset()
        response.success = True
        response.message = f"the robot is {self._start} where it started"
        return response
