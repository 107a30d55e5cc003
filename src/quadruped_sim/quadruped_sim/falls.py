"""Falls, and whether a robot gets up again: dropped in any attitude, or toppled while it walks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.legs.recovery import Lying, lying_on
from fcnet_core.model_file import PolicyModel
from fcnet_core.names import Mode
from fcnet_core.robot import SETPOINT_FIELDS, load_robot
from fcnet_core.rotation import matrix_from_xyzw, projected_gravity
from quadruped_sim.physics.live_robot import LiveRobot
from quadruped_sim.physics.placement import Place
from quadruped_sim.physics.simulation import CONTROL_PERIOD, SUBSTEPS, TIMESTEP
from quadruped_sim.physics.terrain import Flat, SideSlope, Terrain
from quadruped_sim.walker import Walker

Fall = Literal["dropped", "toppled"]

DROP_HEIGHT = 0.5  # [m] of the trunk's centre
LONGEST_SETTLING = 4.0  # [s] damped after a fall
STILL = 0.1  # [m/s, rad/s] of the trunk
RIGHTED = 0.35  # [rad] tilt against the ground
WALK_TIME = 3.0  # [s]
WALK_SPEED = 0.3  # [m/s]
SPOT = 1.0  # [m] about the origin, where falls begin
FRICTION = (0.6, 1.0)
FIRST_PUSH, HARDER = 2.5, 0.5  # [m/s], and as many rad/s
PUSH_TIME = 0.6  # [s] after a push, in which a robot falls or not


@dataclass(frozen=True)
class Outcome:
    """One fall and what came of it.

    lay_on: what the robot lay on before. righting: seconds until it was upright at rest, infinite where it never was.
    stood, walked: whether it got up then, and walked. torque, speed: largest shares of the motors' limits while it
    righted itself; power: largest sum of |torque x velocity| [W]; rate: largest of the trunk about its horizontal axes,
    averaged as the bridge does [rad/s].
    """

    lay_on: Lying
    righting: float
    stood: bool
    walked: bool
    torque: float
    speed: float
    power: float
    rate: float


@dataclass(frozen=True)
class FallTrial:
    """One fall; equal trials give equal results. degrees: of the slope, on which the robot heads anywhere."""

    robot: str
    model: PolicyModel
    fall: Fall
    degrees: float
    seed: int
    number: int

    def run(self) -> Outcome:
        """Fall, get up, walk."""
        rng = np.random.default_rng([self.seed, self.number, self.fall == "toppled", round(10 * self.degrees)])
        robot = load_robot(self.robot)
        terrain: Terrain = SideSlope(self.degrees) if self.degrees else Flat()
        live = LiveRobot(robot, terrain, timestep=TIMESTEP, start="standing", seed=int(rng.integers(2**31)))
        live.model.geom_friction[:, 0] = rng.uniform(*FRICTION)
        walker = Walker(live, self.model)
        if self.fall == "dropped":
            drop(live, rng)
        else:
            _topple(live, walker, rng)
        settle(live)
        angle = math.radians(self.degrees)
        return _get_up(live, walker, np.array([0.0, -math.sin(angle), math.cos(angle)]))


def drop(live: LiveRobot, rng: np.random.Generator) -> None:
    """From DROP_HEIGHT, in any attitude and pose, with no speed."""
    live.reset()
    attitude = rng.normal(size=4)
    spot = rng.uniform(-SPOT, SPOT, 2)
    ground = float(live.terrain.height(spot[:1], spot[1:])[0])
    live.data.qpos[:3] = (*spot, ground + DROP_HEIGHT)
    live.data.qpos[3:7] = attitude / np.linalg.norm(attitude)
    live.data.qpos[7:] = rng.uniform(live.robot.lower, live.robot.upper)
    live.data.qvel[:] = 0.0


def _topple(live: LiveRobot, walker: Walker, rng: np.random.Generator) -> None:
    """By pushes, harder and harder, in the middle of a walk; damped once it has fallen, as by the watchdog."""
    setpoint = np.zeros(len(SETPOINT_FIELDS))
    setpoint[:3] = rng.uniform((-0.3, -0.2, -0.5), (0.8, 0.2, 0.5))
    live.place = Place(heading=rng.uniform(-np.pi, np.pi))
    live.reset()
    walker.start()
    walker.begin()
    upright, speed = walker.walk(1.0 + rng.random(), setpoint), FIRST_PUSH
    while upright:
        live.push(speed)
        live.data.qvel[3:5] += speed * rng.uniform(-1, 1, 2)
        walker.begin()
        upright, speed = walker.walk(PUSH_TIME, setpoint), speed + HARDER


def settle(live: LiveRobot) -> None:
    """Damped until at rest."""
    live.damp()
    for _ in range(round(LONGEST_SETTLING / CONTROL_PERIOD)):
        live.advance(SUBSTEPS)
        if np.abs(live.data.qvel[:6]).max() < STILL and live.data.time > 0.5:
            break


def _get_up(live: LiveRobot, walker: Walker, normal: Array) -> Outcome:
    posture, load, elapsed = walker.posture, _Load(live), 0.0
    lay_on = lying_on(projected_gravity(live.ground_truth().orientation))
    walker.recover()
    while posture.mode is Mode.RECOVERING:
        walker.advance()
        load.measure()
        elapsed += CONTROL_PERIOD
    upright = matrix_from_xyzw(live.ground_truth().orientation)[:, 2] @ normal > math.cos(RIGHTED)
    righted = posture.mode is Mode.STANDING_UP and bool(upright)
    while posture.mode is Mode.STANDING_UP:
        walker.advance()
    forward = np.zeros(len(SETPOINT_FIELDS))
    forward[0] = WALK_SPEED
    stood = posture.mode is Mode.STANDING
    walker.begin()
    walked = stood and walker.walk(WALK_TIME, forward)
    return Outcome(lay_on, elapsed if righted else math.inf, stood, walked, *load.largest)


class _Load:
    """The largest loads so far, in the order of Outcome."""

    def __init__(self, live: LiveRobot) -> None:
        self._live, self.largest = live, (0.0, 0.0, 0.0, 0.0)
        self._rate: Array = np.zeros(2)

    def measure(self) -> None:
        """Look at the end of a control period."""
        robot, torque, velocity = self._live.robot, self._live.data.actuator_force, self._live.data.qvel[6:]
        self._rate += CONTROL_PERIOD / robot.safety.fall_rate_time * (self._live.data.qvel[3:5] - self._rate)
        now = (
            float(np.abs(torque / robot.torque_limit).max()),
            float(np.abs(velocity / robot.velocity_limit).max()),
            float(np.abs(torque * velocity).sum()),
            float(np.hypot(*self._rate)),
        )
        self.largest = (
            max(self.largest[0], now[0]),
            max(self.largest[1], now[1]),
            max(self.largest[2], now[2]),
            max(self.largest[3], now[3]),
        )
