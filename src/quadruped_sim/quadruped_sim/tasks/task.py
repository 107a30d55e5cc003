"""Task files: a simulated world with its commands, rewards and terminations, and the functions that they name."""

import inspect
import runpy
from collections import Counter
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct, structs

from fcnet_core.arrays import Array, Mask, Single
from fcnet_core.errors import FcnetError
from fcnet_core.files import NotNegative, Number, Positive, converted, preset, read_settings
from fcnet_core.observation import JointTargets, PolicyInterface, velocity_interface
from fcnet_core.observation.terms import AnyTerm
from fcnet_core.robot import Robot, load_robot
from quadruped_sim.physics.randomization import TYPICAL, Randomization
from quadruped_sim.physics.terrain import terrain_from_facts
from quadruped_sim.tasks import rewards, signals, terminations
from quadruped_sim.tasks.setpoints import SetpointRanges
from quadruped_sim.tasks.view import TrueState, View

FILE = "task"


class Call(Struct, frozen=True, forbid_unknown_fields=True):
    """A function by name, with its parameters. FILE:NAME is a function in FILE.py in the folder of the task's file."""

    function: str
    params: dict[str, Any] = {}


class Reward(Call, frozen=True, kw_only=True):
    """A part of a weighted sum."""

    weight: Number


class Termination(Call, frozen=True):
    """A reason to end an episode; penalty: taken from the sum of the rewards, below its lowest value."""

    penalty: NotNegative = 0.0


class Total(Struct, frozen=True, forbid_unknown_fields=True):
    """A reward is scale x max(weighted sum, lowest)."""

    scale: Number = 1.0
    lowest: Number = -1e6


class Function:
    """A task's function with its parameters, and its memory if it has one, for B robots."""

    def __init__(self, place: str, call: Call, module: ModuleType, folder: Path, batch: int) -> None:
        file, _, name = call.function.rpartition(":")
        where, members, owner = "the suite", vars(module), module.__name__
        if file:
            where, owner = f"{folder / file}.py", "<run_path>"
            try:
                members = runpy.run_path(where, run_name=owner)
            except Exception as error:
                raise FcnetError(f"{where}, which the task names, cannot be imported: {error}") from error
        found = {name: member for name, member in members.items() if inspect.isfunction(member) and name[0] != "_"}
        known = {name: function for name, function in found.items() if function.__module__ == owner}
        if name not in known:
            raise FcnetError(f"there is no function {name} in {where}; choose one of {', '.join(sorted(known))}")
        takes, empty = inspect.signature(known[name], eval_str=True).parameters, inspect.Parameter.empty
        fields = []
        for item in takes.values():
            if item.kind is item.KEYWORD_ONLY:
                annotation = Any if item.annotation is empty else item.annotation
                fields.append((item.name, annotation, msgspec.NODEFAULT if item.default is empty else item.default))
        kind = msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)
        try:
            params = structs.asdict(converted(call.params, kind))
        except FcnetError as error:
            raise FcnetError(f"{place}, function {call.function}: {error}") from error
        self._arrays: dict[str, Any] = {}

        def memory(name: str, size: int, dtype: npt.DTypeLike = np.float64) -> Any:
            if name not in self._arrays:
                self._arrays[name] = np.zeros((batch, size), dtype)
            return self._arrays[name]

        self._call = partial(known[name], **params, **({"memory": memory} if "memory" in takes else {}))

    def __call__(self, view: TrueState) -> Any:
        """Return an array (B,) or (B, n)."""
        return self._call(view)

    def reset(self, mask: Mask) -> None:
        """Forget what the robots in `mask` (B,) did."""
        for array in self._arrays.values():
            array[mask] = 0


SECTIONS = {"rewards": rewards, "score": rewards, "terminations": terminations, "signals": signals}


class Task(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A task as in its file; see config/tasks. Sections are mappings of names to functions.

    episode [s]: longest one. terrains, commands, randomization, push [m/s]: as in a part of a collection file, which
    takes their place where one is given. interface: what a policy sees and does, by default velocity_interface at
    `rate` [Hz]; teacher, critic: terms that a teacher sees as well, and that only its critic sees. rewards: what a
    policy is trained on; score: what the evaluation reports, per second and not below zero. signals: arrays by name
    that only the simulator knows. noise: uniform, largest of each part of an observation, in place of the sensors' own.
    start: pose in which an episode starts. folder: of the file.
    """

    name: str
    robot: str = "aliengo"
    interface: PolicyInterface | None = None
    rate: Positive = 50.0
    teacher: tuple[AnyTerm, ...] = ()
    critic: tuple[AnyTerm, ...] = ()
    episode: Positive = 20.0
    start: Literal["standing", "lying"] = "standing"
    terrains: Annotated[tuple[dict[str, Any], ...], Meta(min_length=1)] = ({"kind": "flat"},)
    commands: SetpointRanges = SetpointRanges()
    randomization: Randomization = TYPICAL
    noise: dict[str, NotNegative] | None = None
    push: NotNegative = 0.0
    rewards: dict[str, Reward]
    total: Total = Total()
    terminations: dict[str, Termination] = {}
    score: dict[str, Reward] = {}
    signals: dict[str, Call] = {}
    folder: str = ""

    def __post_init__(self) -> None:
        for facts in self.terrains:
            terrain_from_facts(**facts)

    def policy_interface(self, robot: Robot) -> PolicyInterface:
        """Return what a policy of the robot sees and does."""
        return self.interface or velocity_interface(robot, self.rate)

    def teacher_interface(self, robot: Robot, critic: bool = False) -> PolicyInterface:
        """Return what a teacher of the robot sees and does, or what its critic sees."""
        interface = self.policy_interface(robot)
        (name, seen), *_ = interface.inputs.items()
        terms = (*seen.terms, *self.teacher, *(self.critic if critic else ()))
        return structs.replace(interface, inputs={name: structs.replace(seen, terms=terms)})

    def driven(self) -> Robot:
        """Return the robot with the gains of the task's interface. If its action bounds torques, it does not limit the
        rate of targets.
        """
        robot, at = load_robot(self.robot), self.interface
        if at is None or not isinstance(at.action, JointTargets):
            return robot
        gains = {"kp": at.stiffness, "kd": at.damping}
        by_joint = {name: dict(zip(at.joints, values.tolist(), strict=True)) for name, values in gains.items()}
        robot = structs.replace(robot, gains=structs.replace(robot.gains, **by_joint))
        if np.isfinite(at.action.max_torque):
            robot = structs.replace(robot, safety=structs.replace(robot.safety, max_target_rate=1e6))
        return robot

    def noise_levels(self, interface: PolicyInterface) -> Single | None:
        """Return the largest noise (n,) of an observation of a policy; None for that of the sensors."""
        if self.noise is None:
            return None
        (name, spec), *_ = interface.spec.items()
        if unknown := sorted(self.noise.keys() - spec.parts.keys()):
            raise FcnetError(f"noise names {unknown[0]}, which is no part of the observation {', '.join(spec.parts)}")
        levels = [np.full(size, self.noise.get(part, 0.0)) for part, size in spec.parts.items()]
        return np.concatenate(levels).astype(np.float32) * interface.scales(name)

    def functions(self, section: str, batch: int) -> dict[str, Function]:
        """Return the functions of a section for B robots. Raises FcnetError for an unknown function or parameter."""
        return {
            name: Function(f"{section}.{name}", call, SECTIONS[section], Path(self.folder), batch)
            for name, call in getattr(self, section).items()
        }


def load_task(source: str | Path) -> Task:
    """Read a task file, or one of config/tasks/ by its name. Raises FcnetError for one that cannot be used."""
    path = preset(source, "tasks", FILE)
    task = read_settings(path, Task, FILE)
    structs.force_setattr(task, "folder", str(path.resolve().parent))
    for section in SECTIONS:
        try:
            task.functions(section, 1)
        except FcnetError as error:
            raise FcnetError(f"{FILE} {path} cannot be used: {error}") from error
    return task


class Rewards:
    """Rewards and ends of the episodes of B robots, one control period after another. section: rewards or score.
    `totals` sums each part over robots and periods.
    """

    def __init__(self, task: Task, batch: int, section: str = "rewards") -> None:
        self._is_score = section == "score"
        self._total = Total(lowest=0.0) if self._is_score else task.total
        self._parts = task.functions(section, batch)
        self._weights = np.array([[reward.weight] for reward in getattr(task, section).values()])
        penalties = [0.0 if self._is_score else termination.penalty for termination in task.terminations.values()]
        self._terminations = dict(zip(task.functions("terminations", batch).values(), penalties, strict=True))
        self.totals: Counter[str] = Counter()

    def reset(self, mask: Mask) -> None:
        """Forget what the robots in `mask` (B,) did."""
        for function in (*self._parts.values(), *self._terminations):
            function.reset(mask)

    def __call__(self, view: View) -> tuple[Array, Mask]:
        """Return the rewards (B,) of a control period, and which episodes it ends (B,)."""
        parts = self._weights * [function(view) for function in self._parts.values()]
        self.totals.update(dict(zip(self._parts, parts.sum(1).tolist(), strict=True)))
        paid = np.maximum(parts.sum(0), self._total.lowest)
        ended = np.zeros(len(paid), dtype=bool)
        for termination, penalty in self._terminations.items():
            ended |= (ends := termination(view))
            paid = paid - penalty * ends
        return self._total.scale * paid * (view.simulation.period if self._is_score else 1.0), ended
