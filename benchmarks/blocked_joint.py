"""How far a blocked joint stands out from walking: for how long a motor pushes hard without turning.

The policy walks in simulation, freely, pushed, and with one joint that does not move. For every share of the torque
limit the longest time (that with less that without, as the bridge's checks count) in which a joint gave more than this
share and turned at less than 0.6 rad/s. A check of the bridge could tell a blocked joint where the two are far apart.

Run it in a shell after `. env.sh`: python benchmarks/blocked_joint.py --robot aliengo
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fcnet_core.command import CommandShaper
from fcnet_core.model_file import load_model
from fcnet_core.observation import assemble_observation
from fcnet_core.robot import JOINT_NAMES, load_robot
from fcnet_core.runtime import load_policy
from quadruped_sim.live_robot import MotorDrivenRobot
from quadruped_sim.terrain import named_terrain

FOLDER = Path(__file__).resolve().parent.parent
PERIOD, CYCLE = 0.02, 0.002  # [s] of the policy and of the motors
SHARES = (0.3, 0.4, 0.5, 0.6)
STILL = 0.6  # [rad/s]
PUSH, BETWEEN = 0.8, 150  # [m/s], periods
Array = npt.NDArray[np.float64]
# Setpoints (vx, vy, yaw rate, height) for some seconds each.
COURSE = (
    ((0.0, 0.0, 0.0, 0.0), 2.0),
    ((0.6, 0.0, 0.0, 0.0), 4.0),
    ((1.5, 0.0, 0.0, 0.0), 3.0),
    ((-0.5, 0.0, 0.0, 0.0), 3.0),
    ((0.0, 0.3, 0.0, 0.0), 3.0),
    ((0.0, 0.0, 1.0, 0.0), 3.0),
    ((0.0, 0.0, 0.0, -0.1), 4.0),
)
CASES = {
    "course": (COURSE, 0.0, None),
    "0.6 m/s, pushes of 0.8 m/s": ((((0.6, 0.0, 0.0, 0.0), 12.0),), PUSH, None),
    **{
        f"{joint} blocked, {speed:g} m/s": ((((speed, 0.0, 0.0, 0.0), 8.0),), 0.0, joint)
        for joint in ("FR_calf_joint", "RL_calf_joint", "FR_thigh_joint")
        for speed in (0.0, 0.3, 0.8)
    },
}


class Walk:
    """A robot on its policy, with everything its motors did; it stands when the walk begins."""

    def __init__(self, name: str) -> None:
        self.robot = load_robot(name)
        model = load_model(FOLDER / "models" / f"{name}.safetensors")
        self._policy = load_policy(model)
        self._policy.reset()
        self._gains = np.broadcast_to(model.card.kp, 12), np.broadcast_to(model.card.kd, 12)
        self._shaper = CommandShaper(self.robot.commands, self.robot.gait, PERIOD)
        self.body = MotorDrivenRobot(self.robot, named_terrain("flat"), timestep=CYCLE)
        self.torque: list[Array] = []
        self.velocity: list[Array] = []
        for share in np.linspace(0.0, 1.0, 150):
            self._follow(self.robot.lie_pose + min(1.5 * share, 1.0) * (self.robot.stand_pose - self.robot.lie_pose))
        self.torque.clear()
        self.velocity.clear()

    def step(self, setpoint: tuple[float, ...]) -> None:
        """One period of the policy."""
        command = self._shaper.step([[*setpoint, *[0.0] * 5]])[0]
        seen = self.body.read_sensors()
        observation = assemble_observation(
            seen.orientation, seen.angular_velocity, seen.joint_position, seen.joint_velocity, self._target, command
        )
        action = self._policy.step(np.ascontiguousarray(observation))
        self._follow(np.clip(action, self.robot.lower, self.robot.upper))

    def pushing(self, share: float) -> float:
        """The longest time [s] for which a joint gave more than this share of its torque and stood still."""
        pushes = np.abs(self.torque) > share * self.robot.torque_limit
        counted = np.where(pushes & (np.abs(self.velocity) < STILL), 1, -1)
        sums = np.zeros(12)
        longest = 0.0
        for now in counted:
            sums = np.maximum(sums + now, 0.0)
            longest = max(longest, float(sums.max()))
        return longest * CYCLE

    def _follow(self, target: Array) -> None:
        self._target = np.asarray(target, dtype=np.float64)
        for _ in range(round(PERIOD / CYCLE)):
            self.body.drive(self._target, np.zeros(12), np.zeros(12), *self._gains)
            self.body.advance(1)
            seen = self.body.read_sensors()
            self.torque.append(seen.joint_effort)
            self.velocity.append(seen.joint_velocity)


def walked(name: str, course: tuple[tuple[tuple[float, ...], float], ...], push: float, joint: str | None) -> Walk:
    """A walk along a course, pushed every 3 s, with this joint blocked after 1 s."""
    walk = Walk(name)
    setpoints = [setpoint for setpoint, duration in course for _ in range(round(duration / PERIOD))]
    for number, setpoint in enumerate(setpoints):
        if joint is not None and number == round(1.0 / PERIOD):
            walk.body.block(JOINT_NAMES.index(joint))
        if push and number % BETWEEN == BETWEEN - 1:
            walk.body.push(push)
        walk.step(setpoint)
    return walk


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", default="aliengo", help="aliengo or a1")
    name = parser.parse_args().robot
    print(
        f"| {name} | {' | '.join(f'above {share:g}' for share in SHARES)} |", "|---" * (1 + len(SHARES)) + "|", sep="\n"
    )
    for case, (course, push, joint) in CASES.items():
        walk = walked(name, course, push, joint)
        print(f"| {case} | {' | '.join(f'{walk.pushing(share):.2f}' for share in SHARES)} |", flush=True)


if __name__ == "__main__":
    main()
