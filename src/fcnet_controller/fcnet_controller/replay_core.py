"""The controller's core on recorded states: the recording alone decides when it walks, since nothing moves."""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import Imu, JointState

from fcnet_controller.control_core import EMERGENCY_STOP, ControlCore
from fcnet_controller.posture import Answer, Mode
from fcnet_controller.state_receiver import store_imu, store_joints

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
