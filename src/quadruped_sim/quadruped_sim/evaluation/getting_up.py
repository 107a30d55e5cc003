"""Getting up as the controller lets robots do it, with its watchdogs. Episodes of one robot each: standing up from the
belly on every terrain, and recovering after falls. In a batch: episodes of walking that begin lying.
"""

import math
from contextlib import suppress
from typing import Literal

import numpy as np

from fcnet_core.arrays import Mask
from fcnet_core.errors import FcnetError, SimulationError
from fcnet_core.model_file import PolicyModel
from fcnet_core.names import Mode
from fcnet_core.observation import RobotState
from fcnet_core.robot import SETPOINT_FIELDS, Robot
from fcnet_core.rotation import matrix_from_xyzw, tilt
from quadruped_sim.controlled_robot import ControlledRobot, controller_of
from quadruped_sim.physics.body import RATE
from quadruped_sim.physics.live_robot import LiveRobot
from quadruped_sim.physics.placement import Place
from quadruped_sim.physics.simulation import Simulation
from quadruped_sim.physics.terrain import START, TERRAINS, Flat, Rough, SideSlope, Slope, Terrain
from quadruped_sim.rollout import Rollout

Kind = Literal["stand_up", "recovery"]

FRICTION = (0.6, 1.0)  # sliding, of robot and ground

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

FALLS = ((False, 0.0), (True, 0.0), (False, 10.0), (True, 10.0))  # pushed over, not dropped; slope [deg]
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

RESTING_TIME = 1.0  # [s] in which a robot that was laid down comes to rest
STANDING_TIME = 0.5  # [s] between standing up and walking
LONGEST_START = 8.0  # [s] in which a robot has to stand
ANY_HEADING = (Flat, Rough, Slope, SideSlope)  # what is in front of stairs and obstacles is walked ahead
ON_SLOPE = START + 6.0  # [m] along x: far enough from the slope's ends for an episode


def get_up(robot: Robot, kind: Kind, seed: int, number: int, model: PolicyModel | None = None) -> str:
    """Run episode `number` of a kind; return why it failed, or an empty text. Equal arguments give equal results.

    Terrains and kinds of falls come in turn: on each of them the first four starts head along the axes, the others
    anywhere. Without a model a recovery ends standing. Raises SimulationError for a robot that does not lie, or that
    cannot right itself.
    """
    if kind == "stand_up":
        number, ground = divmod(number, len(GROUNDS))
        return stand_up(robot, list(GROUNDS)[ground], seed, number, model)
    number, fall = divmod(number, len(FALLS))
    return recover(robot, *FALLS[fall], seed, number, model)


def stand_up(robot: Robot, ground: str, seed: int, number: int, model: PolicyModel | None = None) -> str:
    """Stand up on one of GROUNDS, stand, lie down, and lie damped; see `get_up`. The model only sets the rate."""
    rng = np.random.default_rng([seed, number, sorted(GROUNDS).index(ground)])
    heading = number * math.pi / 2 if number < 4 else rng.uniform(-math.pi, math.pi)
    x, y = (float(rng.uniform(*side)) for side in REGION)
    live = _placed(robot, GROUNDS[ground], Place(x, y, heading), rng, model)
    controlled = ControlledRobot(live, None)
    controlled.measure().stand_up(live.time)
    if failure := _run(controlled, LONGEST, Mode.STANDING) or _run(controlled, HOLD):
        return failure
    controlled.controller.lie_down()
    if failure := _run(controlled, LONGEST, Mode.PASSIVE):
        return failure
    live.damp()
    lay = live.ground_truth().position
    live.advance(round(HOLD / live.time_step))
    truth = live.ground_truth()
    if tilt(truth.orientation) > robot.safety.max_tilt:
        return "tilted in the end"
    slide = float(np.linalg.norm(truth.position - lay))
    return f"slid by {slide:.2f} m" if slide > MAX_SLIDE else ""


def recover(
    robot: Robot, toppled: bool, degrees: float, seed: int, number: int, model: PolicyModel | None = None
) -> str:
    """Fall on a slope, come to rest damped, get up and walk; see `get_up`."""
    if not robot.recovery:
        raise SimulationError(f"{robot.name} cannot get up after a fall: its file has no recovery")
    rng = np.random.default_rng([seed, number, toppled, round(10 * degrees)])
    live = _placed(robot, SideSlope(degrees) if degrees else Flat(), None, rng, model)
    controlled = ControlledRobot(live, model)
    if toppled and model:
        _topple(controlled, rng)
    else:
        drop(live, rng)
    for period in range(round(LONGEST_SETTLING / live.period)):
        live.step(None)  # damped, as the controller does in fault
        if np.abs(live.velocity).max() < STILL and period >= SHORTEST_SETTLING / live.period:
            break
    controller, periods = controlled.controller, 0
    controller.reset()
    try:
        controlled.measure().recover(live.time)
    except FcnetError as refused:
        return str(refused)
    while controller.mode is Mode.RECOVERING:
        controlled.cycle()
        periods += 1
    normal = np.array([0.0, -math.sin(math.radians(degrees)), math.cos(math.radians(degrees))])
    upright = matrix_from_xyzw(live.ground_truth().orientation)[:, 2] @ normal > math.cos(RIGHTED)
    if controller.mode is not Mode.STANDING_UP or not upright or periods * live.period > IN_TIME:
        return f"not upright in {IN_TIME:g} s"
    if (failure := _run(controlled, LONGEST, Mode.STANDING)) or model is None:
        return failure
    controller.walk()
    forward = np.zeros(len(SETPOINT_FIELDS))
    forward[0] = WALK_SPEED
    return "" if controlled.walk(WALK_TIME, forward) else "fell while walking"


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
    robot.measure().walk_on()
    upright, speed = robot.walk(1.0 + rng.random(), setpoint), FIRST_PUSH
    while upright:
        live.shove(speed)
        live.accelerate(np.zeros(3), np.append(speed * rng.uniform(-1, 1, 2), 0.0))
        upright, speed = robot.walk(PUSH_TIME, setpoint), speed + HARDER


def _placed(
    robot: Robot, terrain: Terrain, place: Place | None, rng: np.random.Generator, model: PolicyModel | None
) -> LiveRobot:
    """Make a robot on ground of random friction: lying at a place, else standing."""
    period = 1.0 / (model.card.interface.rate if model else RATE)
    seed = int(rng.integers(2**31))
    live = LiveRobot(robot, terrain, start="lying" if place else "standing", place=place, seed=seed, period=period)
    live.model.geom_friction[:, 0] = rng.uniform(*FRICTION)
    live.reset()
    return live


def _run(robot: ControlledRobot, seconds: float, end: Mode | None = None) -> str:
    """Run control periods, at most until the mode `end`; return why the robot failed or did not get there, if so."""
    controller = robot.controller
    for _ in range(round(seconds / robot.live.period)):
        robot.cycle()
        if controller.mode is Mode.FAULT:
            return controller.fault
        if controller.mode is end:
            return ""
    return f"not {end.words}" if end else ""


def begin_lying(rollout: Rollout, lying: Mask, rng: np.random.Generator) -> Mask:
    """Lay down the robots in `lying` (B,), on slopes on the incline itself, at any heading if the terrain allows it,
    and let controllers stand them up; the others wait. Return the robots (B,) that do not stand within LONGEST_START.
    """
    simulation, robot = rollout.simulation, rollout.simulation.robot
    chosen = [int(index) for index in np.flatnonzero(lying)]
    failed = np.zeros(len(lying), dtype=bool)
    if not chosen:
        return failed
    waiting = simulation.active.copy()
    simulation.active = lying & waiting
    for index in chosen:
        heading = rng.uniform(-np.pi, np.pi) if isinstance(simulation.terrain, ANY_HEADING) else 0.0
        simulation.lay_down(index, heading, ON_SLOPE if isinstance(simulation.terrain, Slope) else None)
    with simulation.damped(lying):
        # The targets are the joint positions, so that no earlier target takes effect afterwards.
        for _ in range(round(RESTING_TIME / simulation.period)):
            rollout.send(simulation.state().joint_position + simulation.drawn["joint_zero"])
    robots = _states(simulation)
    controllers = {index: controller_of(robot, robots[index], period=simulation.period) for index in chosen}
    for controller in controllers.values():
        with suppress(FcnetError):  # it lies on its side
            controller.stand_up(0.0)
    targets, standing, stood = rollout.limiter.last.copy(), failed[chosen], 0.0
    for period in range(round(LONGEST_START / simulation.period)):
        for index, controller in controllers.items():
            controller.state = robots[index]
            targets[index] = controller.cycle(period * simulation.period) if simulation.active[index] else np.nan
        rollout.send(targets)
        robots = _states(simulation)
        standing = np.array([controller.mode is Mode.STANDING for controller in controllers.values()])
        failed[chosen] = [not controller.posture.commands_joints for controller in controllers.values()]
        simulation.active &= ~failed
        stood = stood + simulation.period if (standing | failed[chosen]).all() else 0.0
        if stood >= STANDING_TIME:
            break
    failed[chosen] |= ~standing
    simulation.active = waiting
    return failed


def _states(simulation: Simulation) -> list[RobotState]:
    """Return the true state of each robot, with joint angles as its encoders count them."""
    state = simulation.state()
    counted = state.joint_position + simulation.drawn["joint_zero"]
    rows = zip(counted, state.joint_velocity, state.orientation, state.angular_velocity, strict=True)
    return [RobotState(*row) for row in rows]
