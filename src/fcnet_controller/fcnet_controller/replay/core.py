"""The controller's core on recorded states, and the messages of a recording by their stamps."""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Iterator
from itertools import islice

import numpy as np
import numpy.typing as npt
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import Imu, JointState

from fcnet_controller.control_core import EMERGENCY_STOP, ControlCore
from fcnet_controller.posture import Answer, Mode
from fcnet_ros.state import HandledByNoExecutor, store_imu, store_joints

# Messages of a recording by their stamps, as they came off the wire: only few of them are ever looked into.

MOST = 20_000  # messages kept: 40 s at 500 Hz
SEARCHED = 2000  # of them, the last ones


def stamp_of(content: bytes) -> float:
    """The stamp [s] of a serialised message that begins with a header, as state_receiver.seconds has it."""
    sec, nanosec = struct.unpack_from("<iI" if content[1] & 1 else ">iI", content, 4)
    return float(sec + 1e-9 * nanosec)


class StampedMessages:
    """The messages of one topic; those that arrived first are forgotten."""

    def __init__(self) -> None:
        self._messages: dict[float, tuple[bytes, float]] = {}  # with the stamp of the message that arrived before
        self._last = math.nan

    def add(self, content: bytes) -> None:
        """Take a message; one of the same stamp is replaced."""
        stamp = stamp_of(content)
        self._messages.pop(stamp, None)
        self._messages[stamp] = content, self._last
        self._last = stamp
        if len(self._messages) > MOST:
            del self._messages[next(iter(self._messages))]

    def get(self, stamp: float) -> bytes | None:
        """The message with exactly this stamp."""
        return self._messages[stamp][0] if stamp in self._messages else None

    def is_behind(self, stamp: float) -> bool:
        """Whether the newest arrival is older than `stamp`: what has that stamp may be on its way."""
        return not self._last >= stamp

    def earlier(self, stamp: float, count: int) -> float:
        """The stamp of what arrived `count` messages before the one with this stamp; NaN where that is not known."""
        for _ in range(count):
            _, stamp = self._messages.get(stamp, (b"", math.nan))
        return stamp

    def latest(self, stamp: float, oldest: float) -> bytes | None:
        """The newest message with a stamp from `oldest` to `stamp`."""
        found = [key for key in self._searched() if oldest <= key <= stamp]
        return self._messages[max(found)][0] if found else None

    def has_any(self, first: float, last: float) -> bool:
        """Whether there is a message with a stamp from `first` to `last`."""
        return any(first <= stamp <= last for stamp in self._searched())

    def _searched(self) -> Iterator[float]:
        return islice(reversed(self._messages), SEARCHED)


# A topic of which every message is taken, as it came off the wire, when the replay gets to it.

QUEUE = 50_000  # messages of a topic that may wait: 10 s of 500 a second at ten times the speed
AT_ONCE = 5000  # of them are taken, so that no topic gets far ahead of the others


class ReplaySubscription:
    """Loses nothing of a reliable publisher; no executor handles it: a callback for each message would be too slow."""

    def __init__(self, node: Node, kind: type, topic: str) -> None:
        self._kind = kind
        self._handle = node.create_subscription(
            kind, topic, lambda _content: None, QoSProfile(depth=QUEUE), callback_group=HandledByNoExecutor(), raw=True
        ).handle

    def take(self) -> list[bytes]:
        """The serialised messages that have come since the last time, the oldest first; the rest waits."""
        taken: list[bytes] = []
        with self._handle:
            while len(taken) < AT_ONCE and (message := self._handle.take_message(self._kind, True)) is not None:
                taken.append(message[0])
        return taken


# The controller's core on recorded states: the recording alone decides when it walks, since nothing moves.

Array = npt.NDArray[np.float64]
REFUSED = Answer(False, "this is a replay: the recording decides what the robot does")


class ReplayFaultError(ValueError):
    """With a recorded state the controller is in fault; the sentence says why."""


class ReplayCore(ControlCore):
    """A control core for recorded states: `see` one, then call `repeat` or `walk_on`; from one thread.

    It walks without having stood up. A fault of its watchdogs lasts for one cycle, an emergency stop until ~/reset.
    """

    def stand_up(self, now: float) -> Answer:
        """Refuse to."""
        return REFUSED

    def walk(self) -> Answer:
        """Refuse to."""
        return REFUSED

    def lie_down(self) -> Answer:
        """Refuse to."""
        return REFUSED

    def see(self, joints: bytes, imu: bytes) -> None:
        """Take serialised joint_states and imu/data as received just now."""
        now = time.monotonic()
        store_joints(self.state, deserialize_message(joints, JointState), now)
        store_imu(self.state, deserialize_message(imu, Imu), now)

    def begin(self) -> None:
        """Start cold, as ~/walk does, from the pose just seen."""
        with self._lock:
            self._go_on()
            self._walking.begin()
            self._limiter.start(self.state.joint_position)

    def repeat(self, command: Array, last: Array) -> Array:
        """Targets (12,) [rad] of a cycle in which the policy takes a step with a recorded command (16,).

        last: the targets sent before (12,) [rad]. Raises ReplayFaultError.
        """
        with self._lock:
            self._walking.repeat_command(command)
            self._limiter.start(last)
        return self._cycle_once()

    def walk_on(self, now: float) -> Array:
        """Targets (12,) [rad] of a cycle with the commands of a time [s] of the recording. Raises ReplayFaultError."""
        self.prepare(now)
        return self._cycle_once()

    def _cycle_once(self) -> Array:
        with self._lock:
            self._go_on()
        targets = self.cycle(self.state.received)
        if targets is None:
            fault = self.fault
            with self._lock:
                self._go_on()
            raise ReplayFaultError(fault)
        return targets

    def _go_on(self) -> None:
        if self._posture.fault != EMERGENCY_STOP:
            self._posture.reset()
            self._posture.mode = Mode.WALKING
