"""Observations, actions and terminations of A1s on the A1-Walk task, many at a time.

Observation, control, command and terminations are those of the authors' code, an adaptation of legged_gym (Rudin et
al., 2022) for Isaac Gym. Ours are: MuJoCo with the suite's A1 (its motors are limited in torque and power), time steps
of 4 ms, five to a period, in place of four of 5 ms; height over the ground below the trunk, not over the start; a start
in the suite's stand pose at rest; and the differences listed at ROUGHNESS and RANDOMIZATION.
"""

from __future__ import annotations

import gymnasium
import msgspec
import numpy as np
from msgspec.structs import replace

from fcnet_core.arrays import Array, ArraySpec, Mask, Single
from fcnet_core.robot import LEG_JOINTS, LEGS, Robot, load_robot
from fcnet_core.rotation import projected_gravity
from quadruped_sim.environments import EPISODE
from quadruped_sim.environments.walking import OneRobot
from quadruped_sim.physics.randomization import OFF, Randomization
from quadruped_sim.physics.simulation import Simulation
from quadruped_sim.physics.terrain import Rough
from quadruped_sim.tasks.task import Rewards, load_task
from quadruped_sim.tasks.view import View

OBSERVATION = ArraySpec(
    (48,),
    parts={
        "linear_velocity": 3,  # zero: no sensor measures it
        "angular_velocity": 3,  # [rad/s] in the body frame
        "gravity": 3,  # its direction in the body frame
        "command": 3,  # forward, sideways [m/s], yaw rate [rad/s]
        "joint_position": 12,  # from DEFAULT_POSE [rad]
        "joint_velocity": 12,  # [rad/s]
        "last_action": 12,
    },
)
SCALE = {"angular_velocity": 0.25, "gravity": 1.0, "command": (2.0, 2.0, 0.25), "joint_position": 1.0,
         "joint_velocity": 0.05, "last_action": 1.0}  # fmt: skip
NOISE = {"angular_velocity": 0.2, "gravity": 0.05, "joint_position": 0.01, "joint_velocity": 1.5}  # uniform, +-
CLIP = 100.0  # of observations and actions
TASK_LEGS = ("FL", "FR", "RL", "RR")  # the order of joints in observation and action
ORDER = np.array([len(LEG_JOINTS) * LEGS.index(leg) + joint for leg in TASK_LEGS for joint in range(len(LEG_JOINTS))])
DEFAULT_POSE = np.array([0.1, 0.8, -1.5, -0.1, 0.8, -1.5, 0.1, 1.0, -1.5, -0.1, 1.0, -1.5])  # [rad] of action 0
ACTION_UNIT = 0.5  # [rad]
TORQUE = 25.0  # [Nm]
SETPOINT = np.array([0.5, *np.zeros(8)])
COMMAND = SETPOINT[:3]  # forward, sideways [m/s], yaw rate [rad/s]
STIFFNESS, DAMPING = 50.0, 1.0  # [Nm/rad, Nms/rad]
# Theirs is Perlin noise in cells of 10 cm, with standard deviations from track to track of 13 to 24 mm; this is 17 mm.
ROUGHNESS = 0.04  # [m], see terrain.Rough
# Friction: theirs draws 0 to 2 for the robot, which PhysX averages with the track's 1. Centre of mass: theirs moves by
# -0.05 to 0.15 m along x, 0.1 along y and 0.05 along z; here all axes have one range.
RANDOMIZATION = msgspec.convert(
    {**OFF, "friction": (0.5, 1.5), "payload": (1.0, 3.0), "com": (-0.05, 0.05), "strength": (0.9, 1.1)}, Randomization
)


def walking_robot() -> Robot:
    """Return the A1 with the task's gains."""
    robot = load_robot("a1")
    return replace(robot, gains=replace(robot.gains, kp=STIFFNESS, kd=DAMPING))


class A1WalkBatch:
    """`batch` robots on a track, one control period after another. `observation` (B, 48) is what they see."""

    def __init__(self, batch: int, seed: int) -> None:
        robot = walking_robot()
        self.simulation = Simulation(robot, batch, Rough(ROUGHNESS, seed), seed, RANDOMIZATION)
        task = load_task("a1_walk")
        self.reward = Rewards(task, batch)
        self._rng = np.random.default_rng([seed, 1])
        self._action: Array = np.zeros((batch, 12))
        self._state = self.simulation.state()
        self.observation = self._observe()

    def step(self, actions: Array) -> tuple[Array, Mask]:
        """Take actions (B, 12); return rewards and which robots have fallen, until `restart`."""
        self._action = np.clip(actions, -CLIP, CLIP)
        targets = self.targets()
        records = self.simulation.step(targets, record=True)
        self._state = self.simulation.state()
        self.observation = self._observe()
        batch = self.simulation.batch
        clock = (np.zeros(batch), np.zeros(batch, dtype=bool))
        sent = (targets, targets, targets)
        setpoint = np.tile(SETPOINT, (batch, 1))
        view = View(self.simulation, self._state, setpoint, *clock, *sent, records)
        return self.reward(view)

    def restart(self, mask: Mask) -> None:
        """Replace the robots in `mask` (B,)."""
        self.simulation.redraw(mask)
        self.simulation.reset(mask)
        self.reward.reset(mask)
        self._action[mask] = 0.0
        self._state = self.simulation.state()
        self.observation = np.where(mask[:, None], self._observe(), self.observation)

    def targets(self) -> Array:
        """Return position targets (B, 12) [rad] of the last actions in the suite's order, none above TORQUE now.
        Later in the period a motor may give more, which exceed_torque_limits_i penalises.
        """
        position, velocity = self._state.joint_position, self._state.joint_velocity
        targets = (DEFAULT_POSE + ACTION_UNIT * self._action)[:, ORDER]  # legs change places in pairs
        lowest, highest = ((DAMPING * velocity + torque) / STIFFNESS for torque in (-TORQUE, TORQUE))
        return np.clip(targets, position + lowest, position + highest)

    def _observe(self) -> Single:
        state, batch = self._state, self.simulation.batch
        measured = {
            "angular_velocity": state.angular_velocity,
            "gravity": projected_gravity(state.orientation),
            "command": np.tile(COMMAND, (batch, 1)),
            "joint_position": state.joint_position[:, ORDER] - DEFAULT_POSE,
            "joint_velocity": state.joint_velocity[:, ORDER],
            "last_action": self._action,
        }
        seen = np.zeros((batch, *OBSERVATION.shape), dtype=np.float32)
        for name, place in OBSERVATION.slices().items():
            if name in measured:
                noise = NOISE.get(name, 0.0) * self._rng.uniform(-1.0, 1.0, measured[name].shape)
                seen[:, place] = (measured[name] + noise) * SCALE[name]
        return np.clip(seen, -CLIP, CLIP)


class A1WalkEpisodes:
    """Robots that are replaced by new draws after a fall or at the time limit: see reinforcement.Robots. The first
    episodes have random lengths, so that they do not all end together.
    """

    def __init__(self, batch: int, seed: int) -> None:
        self._walk = A1WalkBatch(batch, seed)
        self._age = np.random.default_rng([seed, 2]).integers(0, EPISODE, batch)

    def observe(self) -> Single:
        """Return the observations (B, 48) now."""
        return self._walk.observation

    def step(self, actions: Array) -> tuple[Single, Array, Mask, Mask, Single]:
        """Take actions (B, 12); return observations, rewards, which robots fell, which reached the time limit, and the
        last observations of robots whose episode is over.
        """
        reward, fell = self._walk.step(actions)
        last = self._walk.observation
        self._age += 1
        old = (self._age >= EPISODE) & ~fell
        if (over := fell | old).any():
            self._walk.restart(over)
            self._age[over] = 0
        return self._walk.observation, reward, fell, old, last


class A1Walk(OneRobot):
    """The task for Gymnasium. An episode ends when the robot falls; Gymnasium's TimeLimit cuts it off after 20 s. Every
    reset brings another robot; a reset with a seed also another track.
    """

    observation_space = gymnasium.spaces.Box(-CLIP, CLIP, OBSERVATION.shape, np.float32)
    action_space = gymnasium.spaces.Box(-CLIP, CLIP, (12,), np.float32)

    def __init__(self) -> None:
        super().__init__(lambda seed: A1WalkBatch(1, seed))
