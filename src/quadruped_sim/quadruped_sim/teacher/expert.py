"""The teacher as an expert, what a teacher and its critic see, and the mirror image, left for right, of what a teacher
sees and does.

Many terms read what only a simulator knows. PPO learns one side better than the other: a robot then falls under
commands whose mirror images it manages. A teacher therefore acts as the mean of its network's action and of the
mirrored action for the mirrored robot.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array, Single
from fcnet_core.control.command import CommandShaper
from fcnet_core.control.runner import JointLimiter, PolicyRunner
from fcnet_core.errors import SimulationError
from fcnet_core.model_file import PolicyModel
from fcnet_core.observation import Known, ObservationBuilder, PolicyInterface, terms
from fcnet_core.policies.mlp import MLPConfig
from fcnet_core.policy import load_policy
from fcnet_core.robot import LEG_JOINTS, LEGS, Robot
from quadruped_sim.physics.simulation import BodyState, Simulation
from quadruped_sim.tasks.task import Task, load_task
from quadruped_sim.tasks.view import TrueState

ACTION_UNIT = 0.3  # [rad] of a position target from the stand pose, for one unit of a teacher's action
OTHER_LEG = np.array([LEGS.index(leg[0] + {"R": "L", "L": "R"}[leg[1]]) for leg in LEGS])
JOINT_SIGN = np.array([-1.0, 1.0, 1.0])  # of LEG_JOINTS: hips turn about the axis that points forward
VECTOR_SIGN = np.array([1.0, -1.0, 1.0])  # of velocities, forces and places
ROTATION_SIGN = -VECTOR_SIGN  # of angular velocities
SIDEWAYS_FIELDS = ("vy", "yaw_rate", "roll")  # of SETPOINT_FIELDS
CLOCK_SIGN = np.array([-1.0, -1.0, 1.0])  # diagonal pairs of legs swap: the phase moves by half a stride
Permutation = tuple[npt.NDArray[np.intp], npt.NDArray[np.floating]]  # source index and sign of each element


def action_mirror(robot: Robot) -> Permutation:
    """Return the mirror image of joints (N,). Robots with joints that are not of legs are their own mirror image."""
    source, sign = np.arange(len(robot.joints)), np.ones(len(robot.joints), dtype=np.float32)
    if robot.legs and len(robot.joints) == len(LEGS) * len(LEG_JOINTS):
        source[robot.leg_rows], sign[robot.leg_rows] = robot.leg_rows[OTHER_LEG], JOINT_SIGN
    return source, sign


def observation_mirror(interface: PolicyInterface, robot: Robot) -> Permutation:
    """Return the mirror image of an interface's observation, whose joints are the robot's. Signals of a task count as
    their own mirror images.
    """
    parts = [
        _mirror(term, interface.size(term), robot) for _, term in interface.blocks(interface.inputs["observation"])
    ]
    starts = np.cumsum([0, *(len(sign) for _, sign in parts)])
    sources = [start + source for start, (source, _) in zip(starts, parts, strict=False)]
    return np.concatenate(sources), np.concatenate([sign for _, sign in parts], dtype=np.float32)


def _mirror(term: terms.Term, size: int, robot: Robot) -> Permutation:
    joints, sign = action_mirror(robot)
    same = np.arange(size)
    if (joints == np.arange(len(joints))).all():
        return same, np.ones(size)
    match term:
        case terms.JointPosition(form="cos"):
            return joints, np.ones(size)
        case terms.JointPosition() | terms.JointVelocity() | terms.LastAction():
            return joints, sign
        case terms.ProjectedGravity() | terms.LinearVelocity():
            return same, VECTOR_SIGN
        case terms.AngularVelocity():
            return same, ROTATION_SIGN
        case terms.Command():
            return same, np.array([-1.0 if field in SIDEWAYS_FIELDS else 1.0 for field in term.fields])
        case terms.Clock(form="gait"):
            return same, CLOCK_SIGN
    if term.part == "com":
        return same, VECTOR_SIGN
    return (OTHER_LEG if term.part == "foot_contact" else same), np.ones(size)


def mirrored(values: Any, permutation: tuple[Any, Any]) -> Any:
    """Mirror observations or actions (..., n), an array or a tensor with a permutation of tensors."""
    source, sign = permutation
    return values[..., source] * sign


class Privileged:
    """Observations (B, n) of a task's teacher, or of its critic, for robots in their true state.

    A teacher lacks the ground ahead: a policy that does not see the ground could not imitate one that does.
    """

    def __init__(self, task: Task, robot: Robot, batch: int, critic: bool = False) -> None:
        self.interface = task.teacher_interface(robot, critic)
        signals, reads = task.functions("signals", batch), self.interface.reads
        self._signals = {name: signal for name, signal in signals.items() if name in reads}
        self._others = [name for name in reads if name not in signals]
        self._builder = ObservationBuilder(self.interface, robot.joint_names, batch)

    def observe(self, seen: TrueState, shaper: CommandShaper, limiter: JointLimiter) -> Single:
        """Return the observations (B, n) for the robots' commands and the targets that were sent."""
        zero = seen.simulation.drawn["joint_zero"]
        values = seen.simulation.signals(ideal=True, names=self._others, state=seen.state)
        values |= {name: signal(seen) for name, signal in self._signals.items()}
        sent = (limiter.last - zero, limiter.previous - zero)
        known = Known(shaper.setpoint, shaper.clock.phase, shaper.clock.walking, sent)
        observation = self._builder.build(values, known)
        self._builder.advance()
        return np.asarray(observation)


def teacher_config(model: PolicyModel, size: int) -> MLPConfig:
    """Return the network's sizes. Raises SimulationError if it is not a teacher that sees `size` values."""
    config = model.card.config
    if not isinstance(config, MLPConfig) or config.observation != size:
        advice = "choose a file that `fcnet teach` wrote for this task"
        raise SimulationError(f"a teacher sees {size} values, this model {config.observation}; {advice}")
    return config


class TeacherExpert:
    """Position targets for a batch of robots from a model file of `fcnet teach`, alike for robot and mirror image.

    Raises SimulationError for a model of another robot, and for one that is not a teacher.
    """

    def __init__(self, model: PolicyModel, robot: Robot, shaper: CommandShaper, limiter: JointLimiter) -> None:
        task, interface = load_task(model.card.training.get("task", "velocity")), model.card.interface
        self._privileged = Privileged(task, robot, len(limiter.last))
        self._mirrors = observation_mirror(self._privileged.interface, robot), action_mirror(robot)
        teacher_config(model, len(self._mirrors[0][0]))
        if interface.name != robot.name:
            advice = f"choose a teacher of the {robot.name}, see models/teachers"
            raise SimulationError(f"this is a teacher of the {interface.name}; {advice}")
        # Twice the robots of shaper and limiter: each and its mirror image.
        self._shaper, self._limiter, both = shaper, limiter, 2 * len(limiter.last)
        self._runner = PolicyRunner(load_policy(model, batch=both), interface, batch=both, provides=interface.reads)

    def act(self, state: BodyState, simulation: Simulation) -> Array:
        """Return position targets (B, 12) [rad], as the encoders count, for simulated robots in their true state."""
        of_observation, of_action = self._mirrors
        seen = self._privileged.observe(TrueState(simulation, state), self._shaper, self._limiter)
        as_seen, as_mirrored = np.split(self._runner.act(np.concatenate([seen, mirrored(seen, of_observation)])), 2)
        return (as_seen + mirrored(as_mirrored, of_action)) / 2 + simulation.drawn["joint_zero"]
