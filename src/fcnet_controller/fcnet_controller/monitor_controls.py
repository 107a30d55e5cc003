"""What pages can do to a robot: their orders become commands, their buttons requests to controller and bridge."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

from rclpy.clock import Clock, ClockType
from rclpy.node import Node

from fcnet_controller.command_publisher import CommandPublisher
from fcnet_controller.mode_client import ModeClient
from fcnet_controller.monitor_driver import MonitorDriver, Order
from fcnet_core.mode_request import Request
from fcnet_core.robot import CommandRange

PUBLISH_PERIOD = 1 / 30  # [s]


class MonitorControls:
    """Between the server's threads and the node's own, which publishes and asks."""

    def __init__(
        self, node: Node, ranges: dict[str, CommandRange], publisher: CommandPublisher, modes: ModeClient
    ) -> None:
        self._log: Callable[[str], object] = node.get_logger().info
        self._driver, self._lock = MonitorDriver(ranges), threading.Lock()
        self._asked: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._publisher, self._modes = publisher, modes
        self._woken = node.create_guard_condition(self._ask)
        steady = Clock(clock_type=ClockType.STEADY_TIME)  # goes on where simulated time stands still
        node.create_timer(PUBLISH_PERIOD, self._publish, clock=steady)

    def drive(self, order: Order) -> str:
        """Obey an order; a sentence says why it is not obeyed. Called by the server's threads."""
        with self._lock:
            return self._driver.take(order, time.monotonic())

    def ask(self, request: Request) -> None:
        """Ask for a change of mode. Called by the server's threads: the node's own thread is to ask."""
        if request is not Request.WALK:
            self.let_go()
        self._asked.put(request)
        self._woken.trigger()

    def let_go(self) -> None:
        """Take the velocity back from every page."""
        with self._lock:
            self._driver.let_go_of_all(time.monotonic())

    def close(self) -> None:
        """Let go of the robot."""
        self.let_go()
        self._publish()

    def _ask(self) -> None:
        while not self._asked.empty():
            request = self._asked.get()
            self._log(f"{request.value} asked by a page")
            self._modes.ask(request)

    def _publish(self) -> None:
        with self._lock:
            now = time.monotonic()
            velocity, pose = self._driver.velocity(now), self._driver.pose(now)
        if velocity is not None:
            self._publisher.send_velocity(velocity)
        if pose is not None:
            self._publisher.send_pose(pose)
