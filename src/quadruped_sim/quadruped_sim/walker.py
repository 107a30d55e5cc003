"""A simulated robot with a controller's parts in front of it: postures, limiter and policy."""

from __future__ import annotations

from collections.abc import Callable

from fcnet_core.arrays import Array
from fcnet_core.control.limiter import JointLimiter
from fcnet_core.legs.posture import Posture
from fcnet_core.model_file import PolicyModel
from fcnet_core.names import Mode
from fcnet_core.observation import SensorReading
from fcnet_core.policy import PolicyRunner, load_policy
from fcnet_core.rotation import tilt
from quadruped_sim.physics.live_robot import LiveRobot
from quadruped_sim.physics.simulation import CONTROL_PERIOD, SUBSTEPS

TOPPLED = 1.0  # [rad] tilt at which a robot has fallen


class Walker:
    """Commands `live`, one control period at a time; after each of them `after` is called."""

    def __init__(self, live: LiveRobot, model: PolicyModel, after: Callable[[], None] = lambda: None) -> None:
        self.live, self.posture = live, Posture(live.robot, 2.0, 2.0)
        self._limiter = JointLimiter(live.robot, CONTROL_PERIOD)
        self._runner = PolicyRunner(load_policy(model, "numpy"), model, 1.0 / CONTROL_PERIOD)
        self._after = after

    @property
    def command(self) -> Array:
        """The command (16,) that the policy saw last."""
        return self._runner.command

    def start(self) -> None:
        """Begin where the joints are, stiff."""
        self._limiter.start(self.live.read_sensors().position)

    def recover(self) -> None:
        """Begin to get up."""
        self.start()
        self.posture.recover(self._limiter.last)

    def stand_up(self) -> None:
        """Begin to stand up from the belly."""
        self.start()
        self.posture.stand_up(self._limiter.last, self.live.read_sensors().orientation)

    def advance(self) -> None:
        """One control period of a posture."""
        seen = MeasuredReading(self.live.read_sensors())
        if self.posture.mode is Mode.RECOVERING:
            self.posture.turn_over(CONTROL_PERIOD, seen)
        else:
            self.posture.advance(CONTROL_PERIOD, seen.joint_position, seen.orientation, self._limiter.last, False)
        self._send(self.posture.pose())

    def begin(self) -> None:
        """Let the policy begin, cold."""
        self._runner.begin()

    def walk(self, seconds: float, setpoint: Array) -> bool:
        """Whether it has not fallen."""
        for _ in range(round(seconds / CONTROL_PERIOD)):
            self._runner.take_command(setpoint)
            self._send(self._runner.targets(MeasuredReading(self.live.read_sensors()), self._limiter.last))
            if tilt(self.live.ground_truth().orientation) > TOPPLED:
                return False
        return True

    def _send(self, targets: Array) -> None:
        self.live.follow(self._limiter.limit(targets))
        self.live.advance(SUBSTEPS)
        self._after()


class MeasuredReading:
    """A reading under the names of a policy."""

    def __init__(self, reading: SensorReading) -> None:
        self.orientation, self.angular_velocity = reading.orientation, reading.angular_velocity
        self.joint_position, self.joint_velocity = reading.position, reading.velocity
