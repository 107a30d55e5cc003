"""Starts on a terrain: a robot that lies on its belly stands up, stands, and lies down again."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.control.limiter import JointLimiter
from fcnet_core.legs.kinematics import LegKinematics
from fcnet_core.legs.posture import Posture
from fcnet_core.names import Mode
from fcnet_core.robot import LEGS, load_robot
from fcnet_core.rotation import matrix_from_xyzw, projected_gravity, tilt_of_gravity
from quadruped_sim.physics.live_robot import LiveRobot
from quadruped_sim.physics.placement import Place
from quadruped_sim.physics.simulation import CONTROL_PERIOD, SUBSTEPS, TIMESTEP
from quadruped_sim.physics.terrain import START, TERRAINS, SideSlope, Slope, Terrain

GROUNDS: dict[str, Terrain] = {
    **TERRAINS,
    "slope_up_15": Slope(15.0),
    "slope_down_15": Slope(-15.0),
    "slope_across_15": SideSlope(15.0),
}
REGION = ((START, START + 3.0), (-1.0, 1.0))  # [m] x and y of a start: on the incline, steps, boxes
FRICTION = (0.6, 1.0)
DURATION = 2.0  # [s] of standing up and of lying down, the controller's default
HOLD = 2.0  # [s] of standing, and of lying damped in the end
LONGEST = 10.0  # [s] of a motion
AWAY = 0.1  # [m] that a lying robot must not move in HOLD


@dataclass(frozen=True)
class Start:
    """What came of one start.

    failure: why it did not stand up and lie down, empty where it did. sag: largest joint error [rad] at the end of
    standing; slip: largest way [m] of a foot while standing; slide: way [m] of the trunk while it lies damped in the
    end; tilt: largest of the trunk against the vertical [rad]. error, rate: largest distance of a target from its joint
    [rad] and largest change of a target [rad/s]; torque: largest share of the motors' limits.
    """

    failure: str
    sag: float
    slip: float
    slide: float
    tilt: float
    error: float
    rate: float
    torque: float


@dataclass(frozen=True)
class StartTrial:
    """One start; equal trials give equal results. The first four head along the axes, the others anywhere."""

    robot: str
    ground: str
    seed: int
    number: int

    def run(self) -> Start:
        """Stand up, stand, lie down."""
        rng = np.random.default_rng([self.seed, self.number, sorted(GROUNDS).index(self.ground)])
        heading = self.number * math.pi / 2 if self.number < 4 else rng.uniform(-math.pi, math.pi)
        x, y = (float(rng.uniform(*side)) for side in REGION)
        robot, terrain, seed = load_robot(self.robot), GROUNDS[self.ground], int(rng.integers(2**31))
        live = LiveRobot(robot, terrain, timestep=TIMESTEP, place=Place(x, y, heading), seed=seed)
        live.model.geom_friction[:, 0] = rng.uniform(*FRICTION)
        live.reset()
        return _Course(live).run()


class _Course:
    """The controller's posture and limiter in front of a simulated robot."""

    def __init__(self, live: LiveRobot) -> None:
        self._live, self._robot = live, live.robot
        self._posture = Posture(live.robot, DURATION, DURATION)
        self._limiter = JointLimiter(live.robot, CONTROL_PERIOD)
        self._legs = LegKinematics(live.robot)
        self._sag = self._slip = self._slide = math.nan
        self._tilt = self._error = self._rate = self._torque = 0.0

    def run(self) -> Start:
        """Until it lies again, or something goes wrong."""
        failure = self._stand_up() or self._lie_down()
        return Start(failure, self._sag, self._slip, self._slide, self._tilt, self._error, self._rate, self._torque)

    def _stand_up(self) -> str:
        seen = self._live.read_sensors()
        self._limiter.start(seen.position)
        self._posture.stand_up(self._limiter.last, seen.orientation)
        if failure := self._until(Mode.STANDING):
            return failure
        feet, moved = self._feet(), 0.0
        for _ in range(round(HOLD / CONTROL_PERIOD)):
            if failure := self._cycle():
                return failure
            moved = max(moved, float(np.linalg.norm(self._feet() - feet, axis=-1).max()))
        self._slip, self._sag = moved, self._posture.largest_error(self._live.data.qpos[7:])
        return ""

    def _lie_down(self) -> str:
        self._posture.lie_down(self._limiter.last)
        if failure := self._until(Mode.PASSIVE):
            return failure
        self._live.damp()
        lay = self._live.ground_truth().position
        self._live.advance(round(HOLD / TIMESTEP))
        self._look()
        self._slide = float(np.linalg.norm(self._live.ground_truth().position - lay))
        if self._tilt > self._robot.safety.max_tilt:
            return "tilted in the end"
        return "slid away" if self._slide > AWAY else ""

    def _until(self, mode: Mode) -> str:
        for _ in range(round(LONGEST / CONTROL_PERIOD)):
            if failure := self._cycle():
                return failure
            if self._posture.mode is mode:
                return ""
        return f"not {mode.words}"

    def _cycle(self) -> str:
        """One control period, as in the controller; why it is the last one, or nothing."""
        posture, limiter, seen = self._posture, self._limiter, self._live.read_sensors()
        last = limiter.last
        posture.advance(CONTROL_PERIOD, seen.position, seen.orientation, last, policy_at_rest=False)
        if not posture.commands_joints:
            return posture.fault
        target = limiter.limit(posture.pose())
        self._rate = max(self._rate, float(np.abs(target - last).max()) / CONTROL_PERIOD)
        self._live.follow(target)
        self._live.advance(SUBSTEPS)
        self._look()
        self._error = max(self._error, float(np.abs(target - self._live.data.qpos[7:]).max()))
        return "" if self._tilt <= self._robot.safety.max_tilt else f"tilted while {posture.mode.words}"

    def _look(self) -> None:
        gravity = projected_gravity(self._live.ground_truth().orientation)
        self._tilt = max(self._tilt, float(tilt_of_gravity(gravity)))
        torque = np.abs(self._live.data.actuator_force / self._robot.torque_limit)
        self._torque = max(self._torque, float(torque.max()))

    def _feet(self) -> Array:
        """Foot centres (4, 3) [m] in the world."""
        trunk = self._live.ground_truth()
        feet = self._legs.feet(self._live.data.qpos[7:].reshape(len(LEGS), -1))[0]
        return trunk.position + feet @ matrix_from_xyzw(trunk.orientation).T
