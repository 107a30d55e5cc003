"""A simulated robot behind the parts of a controller: postures, limiter and policy."""

from __future__ import annotations

import math
from collections.abc import Callable

from fcnet_core.arrays import Array
from fcnet_core.control.limiter import JointLimiter
from fcnet_core.control.runner import PolicyRunner
from fcnet_core.legs.posture import Posture
from fcnet_core.model_file import PolicyModel
from fcnet_core.names import Mode
from fcnet_core.observation import SensorReading
from fcnet_core.policy import load_policy
from fcnet_core.rotation import tilt
from quadruped_sim.physics.live_robot import LiveRobot
from quadruped_sim.physics.simulation import CONTROL_PERIOD, FALLEN_UPRIGHT, SUBSTEPS

STAND_UP_TIME = 2.0  # [s] of standing up and of lying down: the default of the controller's parameters


class ControlledRobot:
    """Commands `live` by control periods, and calls `after` at the end of each. Only `walk` needs a `model`."""

    def __init__(self, live: LiveRobot, model: PolicyModel | None, after: Callable[[], None] = lambda: None) -> None:
        self.live, self.posture = live, Posture(live.robot, STAND_UP_TIME, STAND_UP_TIME)
        self._limiter = JointLimiter(live.robot, CONTROL_PERIOD)
        self._runner = PolicyRunner(load_policy(model, "numpy"), model, 1.0 / CONTROL_PERIOD) if model else None
        self._after = after

    @property
    def command(self) -> Array:
        """The command (16,) that the policy saw last."""
        return self._policy.command

    @property
    def target(self) -> Array:
        """The position targets (12,) [rad] sent last."""
        return self._limiter.last

    def start(self) -> None:
        """Take the measured joint positions as the first targets."""
        self._limiter.start(self.live.read_sensors().position)

    def recover(self) -> None:
        """Request to get up after a fall."""
        self.start()
        self.posture.recover(self._limiter.last)

    def stand_up(self) -> None:
        """Request to stand up from the belly."""
        seen = self.live.read_sensors()
        self._limiter.start(seen.position)
        self.posture.stand_up(self._limiter.last, seen.orientation)

    def lie_down(self) -> None:
        """Request to lie down."""
        self.posture.lie_down(self._limiter.last)

    def advance(self) -> None:
        """Run one control period of a posture; a posture that commands no joints leaves them damped."""
        seen = _Measured(self.live.read_sensors())
        if self.posture.mode is Mode.RECOVERING:
            self.posture.turn_over(CONTROL_PERIOD, seen)
        else:
            self.posture.advance(CONTROL_PERIOD, seen.joint_position, seen.orientation, self._limiter.last, False)
        if self.posture.commands_joints:
            self._send(self.posture.pose())
        else:
            self.live.damp()
            self._advance()

    def begin(self) -> None:
        """Reset the policy."""
        self._policy.begin()

    def walk(self, seconds: float, setpoint: Array) -> bool:
        """Let the policy follow a setpoint (9,); return False as soon as the robot is tilted as one that has fallen."""
        for _ in range(round(seconds / CONTROL_PERIOD)):
            self._policy.take_command(setpoint)
            self._send(self._policy.targets(_Measured(self.live.read_sensors()), self._limiter.last))
            if math.cos(tilt(self.live.ground_truth().orientation)) < FALLEN_UPRIGHT:
                return False
        return True

    @property
    def _policy(self) -> PolicyRunner:
        assert self._runner is not None
        return self._runner

    def _send(self, targets: Array) -> None:
        self.live.follow(self._limiter.limit(targets))
        self._advance()

    def _advance(self) -> None:
        self.live.advance(SUBSTEPS)
        self._after()


class _Measured:
    """A SensorReading under the names of fcnet_core.observation.MeasuredState."""

    def __init__(self, reading: SensorReading) -> None:
        self.orientation, self.angular_velocity = reading.orientation, reading.angular_velocity
        self.joint_position, self.joint_velocity = reading.position, reading.velocity
