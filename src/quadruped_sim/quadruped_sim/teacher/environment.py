"""The robots of a teacher's training as one vectorised environment of stable-baselines3.

An observation is the critic's; the teacher acts on its first TEACHER_SIZE entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial, reduce
from operator import add

import numpy as np

from fcnet_core.arrays import Array
from quadruped_sim.collection import CollectionPlan
from quadruped_sim.reinforcement import WorkerEnvironment
from quadruped_sim.teacher.groups import Groups, Progress
from quadruped_sim.teacher.privileged import CRITIC_SIZE
from quadruped_sim.teacher.settings import TeacherConfig

LARGEST_ACTION = 6.0


class TeacherEnvironment(WorkerEnvironment):
    """The robots of several worker processes, as many and in as many groups in each as the settings say."""

    def __init__(self, plan: CollectionPlan, config: TeacherConfig, workers: Sequence[Executor], seed: int) -> None:
        make = partial(Groups, plan, config.robots, config.groups, config.renewal)
        robots = config.robots // config.groups * config.groups
        super().__init__(workers, make, robots, seed, CRITIC_SIZE, LARGEST_ACTION)

    def advise(self) -> Array:
        """The trot's actions (num_envs, 12); ask in every period or never."""
        return np.concatenate(self.ask("advise"))

    def progress(self) -> Progress:
        """What has happened since the last question."""
        return reduce(add, self.ask("progress"))
