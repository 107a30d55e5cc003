"""Episodes of getting up, one robot each: standing up from the belly on every terrain, and recovering after falls.

The controller commands the robot, with its watchdogs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.errors import FcnetError, SimulationError
from fcnet_core.legs.recovery import Lying, lying_on
from fcnet_core.model_file import PolicyModel
from fcnet_core.names import Mode
from fcnet_core.robot import SETPOINT_FIELDS, load_robot
from fcnet_core.rotation import matrix_from_xyzw, projected_gravity, tilt
from quadruped_sim.controlled_robot import ControlledRobot
from quadruped_sim.physics.live_robot import LiveRobot
from quadruped_sim.physics.placement import Place, StartPose
from quadruped_sim.physics.simulator import RATE
from quadruped_sim.physics.terrain import START, TERRAINS, Flat, SideSlope, Slope, Terrain

Kind = Literal["stand_up", "recovery"]
Fall = Literal["dropped", "toppled"]

FRICTION = (0.6, 1.0)

GROUNDS: dict[str, Terrain] = {
    **TERRAINS,
    "slope_up_15": Slope(15.0),
    "slope_down_15": Slope(-15.0),
    "slope_across_15": SideSlope(15.0),
}
REGION = ((START, START + 3.0), (-1.0, 1.0))  # [m] x and y of a start: on the incline, steps, boxes
HOLD = 2.0  # [s] of standing, and of lying damped in the end
LONGEST = 10.0  # [s] of a motion
MAX_SLIDE = 0.1  # [m] of a robot that lies damped, in HOLD

FALLS: tuple[tuple[Fall, float], ...] = (("dropped", 0.0), ("toppled", 0.0), ("dropped", 10.0), ("toppled", 10.0))
DROP_HEIGHT = 0.5  # [m] of the trunk's centre
SHORTEST_SETTLING, LONGEST_SETTLING = 0.5, 4.0  # [s] damped after a fall
STILL = 0.1  # [m/s, rad/s] of the trunk
RIGHTED = 0.35  # [rad] tilt against the ground
IN_TIME = 5.0  # [s] in which a robot has to right itself
WALK_TIME = 3.0  # [s]
WALK_SPEED = 0.3  # [m/s]
SPOT = 1.0  # [m] about the origin, where falls begin
FIRST_PUSH, HARDER = 2.5, 0.5  # [m/s], and as many rad/s
PUSH_TIME = 0.6  # [s] after a push, in which a robot falls or not


@dataclass(frozen=True)
class Outcome:
    """The result of one episode.

    failure: why it failed; empty if it did not. lay_on: the side on which the robot lay. righting: seconds until a
    fallen robot was upright at rest, infinite if it never was. sag: largest joint error [rad] at the end of standing.
    Maxima of the whole episode, after a fall only while the robot rights itself: torque and speed as shares of the
    motors' limits; power, the sum of |torque x velocity| [W]; turning of the trunk about its horizontal axes, averaged
    as the bridge does [rad/s]; tilt [rad]; distance of a target from its joint [rad] and its change [rad/s].
    """

    failure: str
    lay_on: Lying
    righting: float
    sag: float
    torque: float
    speed: float
    power: float
    turning: float
    tilt: float
    joint_error: float
    target_rate: float


@dataclass(frozen=True)
class GettingUp:
    """Episode `number` of a kind; equal ones give equal results. Terrains and kinds of falls come in turn: on each of
    them the first four starts head along the axes, the others anywhere. Without a model a recovery ends standing.
    """

    robot: str
    kind: Kind
    seed: int
    number: int
    model: PolicyModel | None = None

    def run(self) -> Outcome:
        """Run the episode. Raises SimulationError for a robot that does not lie, or that cannot right itself."""
        if self.kind == "stand_up":
            number, ground = divmod(self.number, len(GROUNDS))
            return self.stand_up(list(GROUNDS)[ground], number)
        number, fall = divmod(self.number, len(FALLS))
        return self.recover(*FALLS[fall], number)

    def stand_up(self, ground: str, number: int) -> Outcome:
        """Stand up, stand, lie down, and lie damped."""
        rng = np.random.default_rng([self.seed, number, sorted(GROUNDS).index(ground)])
        heading = number * math.pi / 2 if number < 4 else rng.uniform(-math.pi, math.pi)
        x, y = (float(rng.uniform(*side)) for side in REGION)
        live = self._live(GROUNDS[ground], rng, Place(x, y, heading))
        return _Episode(ControlledRobot(live, None)).stand_and_lie()

    def recover(self, fall: Fall, degrees: float, number: int) -> Outcome:
        """Fall on a slope of so many degrees, come to rest damped, get up and walk."""
        rng = np.random.default_rng([self.seed, number, fall == "toppled", round(10 * degrees)])
        live = self._live(SideSlope(degrees) if degrees else Flat(), rng)
        robot = ControlledRobot(live, self.model)
        if fall == "toppled" and self.model:
            _topple(robot, rng)
        else:
            drop(live, rng)
        settle(live)
        angle = math.radians(degrees)
        return _Episode(robot).get_up(np.array([0.0, -math.sin(angle), math.cos(angle)]), walks=self.model is not None)

    def _live(self, terrain: Terrain, rng: np.random.Generator, place: Place | None = None) -> LiveRobot:
        """Make a robot on ground of random friction: lying at a place, else standing."""
        start: StartPose = "lying" if place else "standing"
        seed = int(rng.integers(2**31))
        robot, rate = load_robot(self.robot), self.model.card.interface.rate if self.model else RATE
        if self.kind == "recovery" and not robot.recovery:
            raise SimulationError(f"{robot.name} cannot get up after a fall: its file has no recovery")
        live = LiveRobot(robot, terrain, start=start, place=place, seed=seed, period=1.0 / rate)
        live.set_friction(rng.uniform(*FRICTION))
        live.reset()
        return live


def drop(live: LiveRobot, rng: np.random.Generator) -> None:
    """Let a robot fall from DROP_HEIGHT, in any attitude and pose of the joints, without speed."""
    live.reset()
    attitude = rng.normal(size=4)
    spot = rng.uniform(-SPOT, SPOT, 2)
    ground = float(live.terrain.height(spot[:1], spot[1:])[0])
    trunk = np.array([*spot, ground + DROP_HEIGHT, *attitude / np.linalg.norm(attitude)])
    live.move(trunk, rng.uniform(live.robot.lower, live.robot.upper))


def _topple(robot: ControlledRobot, rng: np.random.Generator) -> None:
    """Push a walking robot, harder and harder, until it falls."""
    live, setpoint = robot.live, np.zeros(len(SETPOINT_FIELDS))
    setpoint[:3] = rng.uniform((-0.3, -0.2, -0.5), (0.8, 0.2, 0.5))
    live.place = Place(heading=rng.uniform(-np.pi, np.pi))
    live.reset()
    robot.measure().walk_on(cold=True)
    upright, speed = robot.walk(1.0 + rng.random(), setpoint), FIRST_PUSH
    while upright:
        live.shove(speed)
        live.accelerate(np.zeros(3), np.append(speed * rng.uniform(-1, 1, 2), 0.0))
        upright, speed = robot.walk(PUSH_TIME, setpoint), speed + HARDER


def settle(live: LiveRobot) -> None:
    """Damp the joints, as the controller does in fault, until the robot is at rest."""
    for period in range(round(LONGEST_SETTLING / live.period)):
        live.step(None)
        if np.abs(live.velocity).max() < STILL and period >= SHORTEST_SETTLING / live.period:
            break


class _Episode:
    """A robot that gets up, and the maxima of Outcome so far."""

    def __init__(self, robot: ControlledRobot) -> None:
        self._robot, self._controller, self._live, self._facts = robot, robot.controller, robot.live, robot.live.robot
        self._lay_on = lying_on(projected_gravity(self._live.ground_truth().orientation))
        self._rate: Array = np.zeros(2)
        self._maxima = dict.fromkeys(("torque", "speed", "power", "turning", "tilt", "joint_error", "target_rate"), 0.0)

    def stand_and_lie(self) -> Outcome:
        """Stand up, stand for HOLD, lie down, and lie damped for HOLD."""
        self._robot.measure().stand_up(self._live.time)
        failure, sag = self._until(Mode.STANDING), math.nan
        if not failure:
            failure = self._cycles(HOLD)
            sag = float(self._controller.posture.stand_errors(self._joints()).max())
        if not failure:
            self._controller.lie_down()
            failure = self._until(Mode.PASSIVE) or self._lies_still()
        return self._outcome(failure, sag=sag)

    def get_up(self, normal: Array, walks: bool) -> Outcome:
        """Recover on ground of this normal (3,), stand up and walk."""
        robot, controller, elapsed, right = self._robot, self._controller, 0.0, math.inf
        controller.reset()
        try:
            robot.measure().recover(self._live.time)
        except FcnetError as refused:
            return self._outcome(str(refused), righting=right)
        while controller.mode is Mode.RECOVERING:
            self._cycle()
            elapsed += self._live.period
        upright = matrix_from_xyzw(self._live.ground_truth().orientation)[:, 2] @ normal > math.cos(RIGHTED)
        if controller.mode is Mode.STANDING_UP and upright:
            right = elapsed
        while controller.mode is Mode.STANDING_UP:
            robot.cycle()
        forward = np.zeros(len(SETPOINT_FIELDS))
        forward[0] = WALK_SPEED
        if right > IN_TIME:
            return self._outcome(f"not upright in {IN_TIME:g} s", righting=right)
        if controller.mode is not Mode.STANDING:
            return self._outcome(controller.fault or "did not stand up", righting=right)
        if walks:
            controller.walk()
            walks = not robot.walk(WALK_TIME, forward)
        return self._outcome("fell while walking" if walks else "", righting=right)

    def _until(self, mode: Mode) -> str:
        return self._cycles(LONGEST, mode) or ("" if self._controller.mode is mode else f"not {mode.words}")

    def _cycles(self, seconds: float, mode: Mode | None = None) -> str:
        """Run control periods until this mode; return why they ended early, or nothing."""
        for _ in range(round(seconds / self._live.period)):
            self._cycle()
            if self._controller.mode is Mode.FAULT:
                return self._controller.fault
            if self._controller.mode is mode:
                break
        return ""

    def _lies_still(self) -> str:
        self._live.damp()
        lay = self._live.ground_truth().position
        self._live.advance(round(HOLD / self._live.time_step))
        self._look()
        if self._maxima["tilt"] > self._facts.safety.max_tilt:
            return "tilted in the end"
        slide = float(np.linalg.norm(self._live.ground_truth().position - lay))
        return f"slid by {slide:.2f} m" if slide > MAX_SLIDE else ""

    def _cycle(self) -> None:
        before = self._controller.runner.limiter.last
        self._robot.cycle()
        target = self._controller.runner.limiter.last
        if self._controller.posture.commands_joints:
            self._see("target_rate", np.abs(target - before).max() / self._live.period)
            self._see("joint_error", np.abs(target - self._joints()).max())
        self._look()

    def _look(self) -> None:
        """Note the state at the end of a control period."""
        facts, live = self._facts, self._live
        torque, velocity = live.signals(ideal=True, names=("torque", "joint_velocity")).values()
        self._rate += live.period / facts.safety.fall_rate_time * (live.velocity[3:5] - self._rate)
        self._see("torque", np.abs(torque / facts.torque_limit).max())
        self._see("speed", np.abs(velocity / facts.velocity_limit).max())
        self._see("power", np.abs(torque * velocity).sum())
        self._see("turning", np.hypot(*self._rate))
        self._see("tilt", float(tilt(self._live.ground_truth().orientation)))

    def _joints(self) -> Array:
        return self._live.signals(ideal=True)["joint_position"]

    def _see(self, name: str, value: float) -> None:
        self._maxima[name] = max(self._maxima[name], float(value))

    def _outcome(self, failure: str, righting: float = math.nan, sag: float = math.nan) -> Outcome:
        return Outcome(failure, self._lay_on, righting, sag, **self._maxima)
