"""Episodes that begin lying: robots on their bellies, damped, that stand up as the controller lets them."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from fcnet_core.arrays import Mask
from fcnet_core.errors import FcnetError
from fcnet_core.names import Mode
from fcnet_core.observation import RobotState
from quadruped_sim.controlled_robot import controller_of
from quadruped_sim.physics.simulation import Simulation
from quadruped_sim.physics.terrain import START, Flat, Rough, SideSlope, Slope
from quadruped_sim.rollout import Rollout

RESTING_TIME = 1.0  # [s] in which a robot that was laid down comes to rest
STANDING_TIME = 0.5  # [s] between standing up and walking
LONGEST = 8.0  # [s] in which a robot has to stand
ANY_HEADING = (Flat, Rough, Slope, SideSlope)  # what is in front of stairs and obstacles is walked ahead
ON_SLOPE = START + 6.0  # [m] along x: far enough from the slope's ends for an episode


def stand_up(rollout: Rollout, lying: Mask, rng: np.random.Generator) -> Mask:
    """Lay down the robots in `lying` (B,), on slopes on the incline itself, at any heading if the terrain allows it,
    and let controllers stand them up; the others wait. Return the robots (B,) that do not stand within LONGEST.
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
    for period in range(round(LONGEST / simulation.period)):
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
