"""Turns what pages in browsers ask for into one command."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
import numpy as np
from rclpy.clock import Clock, ClockType
from rclpy.node import Node

from fcnet_core.robot import CommandRange
from fcnet_teleop.commands import CommandPublisher, ModeClient
from fcnet_teleop.remote import POSE, VELOCITY, Request

# Turns what pages in browsers ask for into one command, and takes it back as soon as in doubt.

SILENCE = 0.5  # [s] without an order after which a page has let go
OLDEST_PICTURE = 0.5  # [s] that a person may see late and still drive
LINGER = 1.0  # [s] for which a velocity of zero, or a pose, is still published
LARGEST = 1e9  # number of an order
MOST_PAGES = 32  # that are remembered
NEVER = float("-inf")
STILL = (0.0, 0.0, 0.0)


Number = Annotated[float, msgspec.Meta(gt=-LARGEST, lt=LARGEST)]
Triple = tuple[Number, Number, Number]


class Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a page wants. page: its name; number: grows with every order of the page; seen: time [s] of the newest
    picture it had; velocity [m/s, m/s, rad/s]; pose: height [m], roll, pitch [rad], None while it stays.
    """

    page: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    number: int
    seen: Number
    velocity: Triple
    pose: Triple | None


def parse_order(content: Any) -> Order:
    """Read an order from decoded JSON. Raises ValueError with a sentence that says what is wrong."""
    return msgspec.convert(content, Order)


class MonitorDriver:
    """The command of the page that drives, within a robot's command ranges; used under a lock.

    Only one page drives at a time, until it lets go. A page may drive after it has said zero: one whose velocity was
    taken back (it fell silent, its picture was old, a change of mode was asked for) has to let go first, so that
    nothing jumps back to motion when a connection recovers. Times are monotonic seconds.
    """

    def __init__(self, ranges: dict[str, CommandRange]) -> None:
        self._ranges = ranges
        self._numbers: dict[str, int] = {}  # of the last order of every page, oldest page first
        self._ready: set[str] = set()
        self._driver = ""
        self._velocity = STILL
        self._pose = STILL
        self._heard = self._moved = self._posed = NEVER

    def take(self, order: Order, now: float) -> str:
        """Obey an order; a sentence says why it is not obeyed."""
        if order.number <= self._numbers.get(order.page, -1):
            return ""  # overtaken by a newer one
        self._remember(order)
        self.let_go_if_silent(now)
        if order.pose is not None:
            self._pose, self._posed = self._within(POSE, order.pose), now
        if order.velocity == STILL:
            self._ready.add(order.page)
            if self._driver == order.page:
                self._driver, self._velocity, self._moved = "", STILL, now
            return ""
        return self._drive(order, now)

    def let_go(self, now: float) -> None:
        """Take the velocity back; the page that drove has to say zero before it drives again."""
        if self._driver:
            self._ready.discard(self._driver)
            self._driver, self._velocity, self._moved = "", STILL, now

    def let_go_of_all(self, now: float) -> None:
        """The same for every page: a mode was asked for."""
        self.let_go(now)
        self._ready.clear()

    def let_go_if_silent(self, now: float) -> bool:
        """Take the velocity back of a page that has fallen silent; whether that was needed."""
        silent = bool(self._driver) and now - self._heard > SILENCE
        if silent:
            self.let_go(now)
        return silent

    def velocity(self, now: float) -> dict[str, float] | None:
        """Velocity to publish at time `now`; None while no page drives."""
        self.let_go_if_silent(now)
        if not self._driver and now - self._moved > LINGER:
            return None
        return dict(zip(VELOCITY, self._velocity, strict=True))

    def pose(self, now: float) -> dict[str, float] | None:
        """Pose to publish at time `now`; None while nobody has changed it for a while."""
        return dict(zip(POSE, self._pose, strict=True)) if now - self._posed <= LINGER else None

    def _drive(self, order: Order, now: float) -> str:
        if self._driver and self._driver != order.page:
            return "another page drives the robot; wait until it lets go"
        if not 0.0 <= now - order.seen <= OLDEST_PICTURE:
            self.let_go(now)
            self._ready.discard(order.page)
            return (
                f"the picture is more than {OLDEST_PICTURE:g} s old, so the robot is not driven; let go, then try again"
            )
        if order.page not in self._ready:
            return "let go of sticks, sliders and keys first"
        self._driver, self._heard = order.page, now
        self._velocity = self._within(VELOCITY, order.velocity)
        return ""

    def _within(self, fields: tuple[str, ...], values: tuple[float, float, float]) -> tuple[float, float, float]:
        ranges = [self._ranges[field] for field in fields]
        first, second, third = np.clip(values, [r.lowest for r in ranges], [r.highest for r in ranges]).tolist()
        return first, second, third

    def _remember(self, order: Order) -> None:
        self._numbers.pop(order.page, None)
        self._numbers[order.page] = order.number
        while len(self._numbers) > MOST_PAGES:
            oldest = next(iter(self._numbers))
            del self._numbers[oldest]
            self._ready.discard(oldest)


# What pages can do to a robot: their orders become commands, their buttons requests to controller and bridge.

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
