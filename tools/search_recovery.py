"""Finds, in simulation, the poses with which a robot rolls over, and prints them as `recovery.roll` of its file.

A cross-entropy search (docs/recovery.md): candidates are drawn around a mean, tried on the same falls, and the best of
them give the next mean. Falls are those of `fcnet recovery` from which a robot has to roll.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from fcnet_core.arrays import Array
from fcnet_core.legs.recovery import Lying, SelfRighting, lying_on
from fcnet_core.robot import LEG_JOINTS, LEGS, Recovery, Robot, RollStep, load_robot
from fcnet_core.rotation import projected_gravity
from quadruped_sim.falls import drop, settle
from quadruped_sim.physics.live_robot import LiveRobot
from quadruped_sim.physics.simulation import CONTROL_PERIOD, SUBSTEPS
from quadruped_sim.physics.terrain import Flat, SideSlope
from quadruped_sim.walker import MeasuredReading

POSES, PER_POSE = 3, 2 * len(LEG_JOINTS) + 1  # lower legs, upper legs, duration
DURATION = (0.1, 0.6)  # [s] of a pose
MARGIN = 0.02  # [rad] from the joint limits
CANDIDATES, BEST = 48, 8
FALLS, RENEWED = 12, 3  # falls that a candidate is tried on; iterations after which there are others
LEAST_SPREAD = 0.02
FACTS = {
    "fold_tilt": 0.75,
    "fold_speed": 5.0,
    "max_tilt": 0.45,
    "attempts": 4,
    "max_time": 10.0,
    "max_rate": 12.0,
    "torque": 0.8,
}


@dataclass(frozen=True)
class Fallen:
    """A robot in MuJoCo at rest after a fall, and its state then."""

    live: LiveRobot
    position: Array
    velocity: Array


def main() -> None:
    """Search for the given time and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--robot", default="aliengo", help="name of a robot, or path of its file (default: aliengo)")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long to search (default: 10)")
    parser.add_argument("--seed", type=int, default=0, help="seed of all randomness (default: 0)")
    args = parser.parse_args()
    robot, rng = load_robot(args.robot), np.random.default_rng(args.seed)
    lowest, highest = bounds(robot)
    mean, spread = (lowest + highest) / 2, (highest - lowest) / 2.2
    falls, best, iteration = fallen_robots(robot, rng), mean, 0
    end = time.monotonic() + 60.0 * args.minutes
    while time.monotonic() < end:
        drawn = np.clip(mean + spread * rng.standard_normal((CANDIDATES, len(mean))), lowest, highest)
        drawn[0] = best
        scores = np.array([score(robot, candidate, falls) for candidate in drawn])
        chosen = drawn[np.argsort(-scores)[:BEST]]
        best, iteration = chosen[0], iteration + 1
        mean = 0.2 * mean + 0.8 * chosen.mean(axis=0)
        spread = 0.2 * spread + 0.8 * chosen.std(axis=0) + LEAST_SPREAD
        print(
            f"# iteration {iteration}: best {scores.max():.2f}, median {np.median(scores):.2f} of at most 1", flush=True
        )
        if iteration % RENEWED == 0:
            falls = fallen_robots(robot, rng)
    print("recovery:\n  roll:")
    for step in roll(best):
        lower, upper = ([round(float(value), 2) for value in pose] for pose in (step.lower, step.upper))
        print(f"    - {{duration: {step.duration:.2f}, lower: {lower}, upper: {upper}}}")
    for name, value in FACTS.items():
        print(f"  {name}: {value}")


def bounds(robot: Robot) -> tuple[Array, Array]:
    """Lowest and highest values of a candidate, from the limits of the left front leg: there, outwards is positive."""
    leg = slice(LEGS.index("FL") * len(LEG_JOINTS), (LEGS.index("FL") + 1) * len(LEG_JOINTS))
    lower, upper = robot.lower[leg] + MARGIN, robot.upper[leg] - MARGIN
    lowest = np.tile(np.concatenate([lower, lower, DURATION[:1]]), POSES)
    return lowest, np.tile(np.concatenate([upper, upper, DURATION[1:]]), POSES)


def roll(candidate: Array) -> tuple[RollStep, ...]:
    """The poses of a candidate (POSES x PER_POSE,)."""
    rows = candidate.reshape(POSES, PER_POSE).tolist()
    return tuple(RollStep(duration=row[6], lower=tuple(row[:3]), upper=tuple(row[3:6])) for row in rows)


def fallen_robots(robot: Robot, rng: np.random.Generator) -> list[Fallen]:
    """Robots that lie on side or back, half of them on a slope of 10 degrees."""
    found: list[Fallen] = []
    while len(found) < FALLS:
        terrain = SideSlope(10.0) if len(found) % 2 else Flat()
        live = LiveRobot(robot, terrain, start="standing", seed=int(rng.integers(2**31)))
        live.model.geom_friction[:, 0] = rng.uniform(0.5, 1.0)
        drop(live, rng)
        settle(live)
        if lying_on(projected_gravity(live.ground_truth().orientation)) is not Lying.BELLY:
            found.append(Fallen(live, live.data.qpos.copy(), live.data.qvel.copy()))
    return found


def score(robot: Robot, candidate: Array, falls: list[Fallen]) -> float:
    """Mean over the falls: 1 for a robot upright after one roll, less for time and for loads near the limits."""
    chosen = replace(robot, recovery=Recovery(**{**FACTS, "roll": roll(candidate), "attempts": 1}))
    return float(np.mean([_try(chosen, fallen) for fallen in falls]))


def _try(robot: Robot, fallen: Fallen) -> float:
    live, righting = fallen.live, SelfRighting(robot)
    live.data.qpos[:], live.data.qvel[:], live.data.qacc_warmstart[:] = fallen.position, fallen.velocity, 0.0
    righting.start(live.read_sensors().position)
    elapsed = torque = speed = power = 0.0
    while not (righting.done or righting.failure):
        live.follow(righting.advance(CONTROL_PERIOD, MeasuredReading(live.read_sensors())))
        live.advance(SUBSTEPS)
        force, velocity = live.data.actuator_force, live.data.qvel[6:]
        torque = max(torque, float(np.abs(force / robot.torque_limit).max()))
        speed = max(speed, float(np.abs(velocity / robot.velocity_limit).max()))
        power = max(power, float(np.abs(force * velocity).sum()) / robot.safety.max_power)
        elapsed += CONTROL_PERIOD
    loads = 0.2 * max(0.0, torque - 0.9) + 0.2 * max(0.0, speed - 0.7) + 0.3 * max(0.0, power - 0.5)
    upright = -float(projected_gravity(live.ground_truth().orientation)[2])
    return (1.0 if righting.done else 0.3 * upright - 0.3) - 0.05 * elapsed - loads


if __name__ == "__main__":
    main()
