"""A study from its plan to its results: what is done already is read, the rest is done, by workers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, Future, as_completed
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import msgspec
from msgspec import Struct
from tqdm import tqdm

from fcnet_core.errors import StudyError
from fcnet_core.files import write_whole
from fcnet_core.learning.config import TrainConfig, with_settings
from fcnet_core.learning.dataset import Dataset
from fcnet_core.learning.imitation import envelope_of
from fcnet_core.model_file import PolicyModel, load_model, save_model
from fcnet_core.policy import load_policy
from fcnet_core.robot import load_robot
from fcnet_study.benchmarks.steps import observations, stepping, untrained
from fcnet_study.benchmarks.timing import interleave
from fcnet_study.data_study.jobs import Trained, TrainJob
from fcnet_study.data_study.parts import VALIDATION, part_name, write_parts
from fcnet_study.data_study.settings import Plan, StudyConfig
from fcnet_study.folder import begin, read_json
from quadruped_sim.evaluation.results import Evaluation, Subject, continue_evaluation, mean_return, read_evaluation
from quadruped_sim.evaluation.scenarios import Scenario, scenarios
from quadruped_sim.evaluation.score import Episodes, join, score_of
from quadruped_sim.evaluation.trial import trials
from quadruped_sim.physics.simulation import CONTROL_PERIOD
from quadruped_sim.worker_pool import Place, worker_pool

EXPERT = "expert"
ROUNDS, STEPS = 20, 50  # of the measurement of latency


class Begun(Struct, frozen=True):
    """What a study was begun with, the content of study.json: another would mix its results with those there are."""

    study: StudyConfig
    training: dict[str, TrainConfig]
    robot: str
    recorded_steps: int


@dataclass(frozen=True)
class Results:
    """What a study has found so far: training and evaluation by the names of jobs, the expert's evaluation, and the
    median time of a compiled step [s] by variant.
    """

    plan: Plan
    trained: dict[str, Trained]
    walked: dict[str, Evaluation]
    expert: Evaluation
    latency: dict[str, float]

    def of(self, variant: str, share: float) -> dict[str, Trained]:
        """The jobs of one variant and share, of every seed."""
        return {name: one for name, one in self.trained.items() if (one.variant, one.share) == (variant, share)}

    def leading(self, share: float, count: int) -> list[str]:
        """The variants whose policies returned most on a share of the data, by the return that the table shows."""

        def returned(variant: str) -> float:
            walks = [self.walked[name].scenarios for name in self.of(variant, share) if name in self.walked]
            shares = [mean_return(scores, self.expert.scenarios) for scores in walks]
            return max((share for share in shares if share is not None), default=-math.inf)

        return sorted(self.plan.config.variants, key=returned, reverse=True)[:count]


class Study:
    """A study in its folder. Raises StudyError when the folder holds one with other settings."""

    def __init__(self, plan: Plan, data: Dataset, folder: Path) -> None:
        self.plan, self.data, self.folder = plan, data, folder
        self.robot = load_robot(data.manifest.robot)
        if data.manifest.control_rate != 1 / CONTROL_PERIOD:
            raise StudyError(
                f"the data are of {data.manifest.control_rate:g} Hz, and what is trained on them could not walk: the "
                f"simulation steps policies at {1 / CONTROL_PERIOD:g} Hz"
            )
        known = scenarios(self.robot)
        if unknown := [name for name in plan.config.scenarios if name not in known]:
            raise StudyError(f"there is no scenario {unknown[0]!r}; choose from {', '.join(known)}")
        self.scenarios = [known[name] for name in plan.config.scenarios or known]
        self.teacher = load_model(plan.teacher) if plan.teacher else None
        training = {name: with_settings(settings, data=()) for name, settings in plan.train.items()}
        begin(folder, Begun(plan.config, training, self.robot.name, data.steps))

    def run(self, workers: Place) -> Iterator[Results]:
        """Do what is not done yet, one share after the other of each seed: the results with each further share.

        Policies walk before those of the next share are trained: an interrupted study has whole rows of its table.
        """
        config = self.plan.config
        envelope = envelope_of(self.data, self.robot)

        def job(variant: str, share: float, rate: float, seed: int) -> TrainJob:
            changes = {"data": (self._part(part_name(share)),), "learning_rate": rate, "seed": seed, "threads": 1}
            settings = with_settings(self.plan.train[variant], **changes)
            return TrainJob(variant, share, settings, self._part(VALIDATION), envelope)

        tried = {
            name: [job(name, min(config.shares), rate, config.seeds[0]) for rate in variant.learning_rates]
            for name, variant in config.variants.items()
        }
        several = [job for jobs in tried.values() if len(jobs) > 1 for job in jobs]
        with worker_pool(workers) as pool:
            self._train(pool, [job for job in several if not self._result(job.name).exists()], "learning rates")
            found = self._results(several)
            rates = {
                name: best_rate([found[job.name] for job in jobs]) if len(jobs) > 1 else jobs[0].settings.learning_rate
                for name, jobs in tried.items()
            }
            results = Results(self.plan, {}, {}, self._evaluate(pool, {EXPERT: None})[EXPERT], self._latency())
            smallest = min(config.shares)
            for seed, share in product(config.seeds, config.shares):
                jobs = [job(name, share, rates[name], seed) for name in config.variants]
                yield (results := self._with(results, pool, jobs, f"seed {seed}, {100 * share:g} %"))
            if config.further:
                leading = results.leading(smallest, config.further.leading)
                for seed in config.further.seeds:
                    jobs = [job(name, smallest, rates[name], seed) for name in leading]
                    yield (results := self._with(results, pool, jobs, f"seed {seed}"))

    def _with(self, results: Results, pool: Executor, jobs: list[TrainJob], what: str) -> Results:
        """The results with those of further jobs."""
        self._train(pool, [job for job in jobs if not self._needs_no_training(job.name)], f"training, {what}")
        trained = self._results(jobs)
        names = [name for name, one in trained.items() if one.validation_error is not None]
        walked = {name: whole for name in names if (whole := self._whole_evaluation(name))}
        walked |= self._evaluate(pool, {name: load_model(self._model(name)) for name in names if name not in walked})
        return replace(results, trained=results.trained | trained, walked=results.walked | walked)

    def _needs_no_training(self, name: str) -> bool:
        """Whether a job's result is there, and so is its policy or all that was wanted of it."""
        if not self._result(name).exists():
            return False
        diverged = read_json(self._result(name), Trained).validation_error is None
        return diverged or self._model(name).exists() or self._whole_evaluation(name) is not None

    def _whole_evaluation(self, name: str) -> Evaluation | None:
        """The scores of a policy that has walked through every scenario: its model file is not needed any more."""
        path = self._walk(name)
        found = read_evaluation(path) if path.exists() else None
        return found if found and all(scenario.name in found.scenarios for scenario in self.scenarios) else None

    def _part(self, name: str) -> str:
        return str(self.folder / "data" / name)

    def _train(self, pool: Executor, jobs: list[TrainJob], what: str) -> None:
        """Do jobs, and write their results and policies, once the data are divided."""
        if jobs:
            write_parts(self.data, self.folder / "data", self.plan.config.shares)
        with tqdm(total=len(jobs), desc=what, disable=not jobs) as bar:
            waiting = {pool.submit(job.run): job for job in jobs}
            for future in as_completed(waiting):
                result, model = future.result()
                name = waiting[future].name
                self._walk(name).unlink(missing_ok=True)  # of a policy that is no more, or was left on another computer
                if model:
                    save_model(model, self._model(name))
                write_whole(self._result(name), msgspec.json.format(msgspec.json.encode(result), indent=1))
                bar.update()

    def _results(self, jobs: list[TrainJob]) -> dict[str, Trained]:
        """The results of jobs that were done, by their names."""
        return {job.name: read_json(self._result(job.name), Trained) for job in jobs}

    def _result(self, name: str) -> Path:
        return self.folder / "train" / f"{name}.json"

    def _model(self, name: str) -> Path:
        return self.folder / "models" / f"{name}.safetensors"

    def _walk(self, name: str) -> Path:
        return self.folder / "walk" / f"{name}.json"

    def _evaluate(self, pool: Executor, models: Mapping[str, PolicyModel | None]) -> dict[str, Evaluation]:
        """The scores of policies by name; None is the expert."""
        found = {name: continue_evaluation(self._walk(name), self._subject(model)) for name, model in models.items()}
        for name, scenario, episodes in self._episodes(pool, models, found):
            found[name].scenarios[scenario.name] = score_of(scenario, episodes)
            found[name].write(self._walk(name))
        return found

    def _subject(self, model: PolicyModel | None) -> Subject:
        policy = model.fingerprint if model else None
        teacher = self.teacher.fingerprint if self.teacher and not model else None
        return Subject(self.robot.name, policy, 0, self.plan.config.episodes, teacher)

    def _episodes(
        self, pool: Executor, models: Mapping[str, PolicyModel | None], found: Mapping[str, Evaluation]
    ) -> Iterator[tuple[str, Scenario, Episodes]]:
        """The episodes of every scenario that an evaluation lacks, as soon as all of them are there."""
        work = {
            (name, scenario.name): trials(
                self.robot.name, scenario, self.plan.config.episodes, 0, model, None if model else self.teacher
            )
            for name, model in models.items()
            for scenario in self.scenarios
            if scenario.name not in found[name].scenarios
        }
        steps = sum(trial.size * trial.periods for parts in work.values() for trial in parts)
        with tqdm(total=steps, unit="step", unit_scale=True, desc="walking", disable=not work) as bar:
            waiting: dict[Future[Episodes], tuple[tuple[str, str], int]] = {
                pool.submit(trial.run): (key, trial.number) for key, parts in work.items() for trial in parts
            }
            done: dict[tuple[str, str], dict[int, Episodes]] = {key: {} for key in work}
            for future in as_completed(waiting):
                key, number = waiting.pop(future)
                done[key][number] = future.result()
                bar.update(work[key][number].size * work[key][number].periods)
                if len(done[key]) == len(work[key]):
                    parts = done.pop(key)
                    yield key[0], work[key][0].scenario, join([parts[number] for number in sorted(parts)])

    def _latency(self) -> dict[str, float]:
        """Median time of a compiled step [s] by variant, all in turn; from the file, once it is there."""
        path = self.folder / "latency.json"
        if not path.exists():
            models = {name: untrained(settings.policy_config) for name, settings in self.plan.train.items()}
            calls = {name: stepping(load_policy(model), observations(model)) for name, model in models.items()}
            timing = interleave(calls, ROUNDS, STEPS)
            write_whole(path, json.dumps({name: timing.quantile(name, 0.5) for name in calls}, indent=1).encode())
        return read_json(path, dict[str, float])


def best_rate(tried: list[Trained]) -> float:
    """The learning rate with the smallest error on the validation data. Raises StudyError when all diverged."""
    errors = {one.learning_rate: one.validation_error for one in tried if one.validation_error is not None}
    if not errors:
        raise StudyError(f"{tried[0].variant} diverged with every learning rate; give lower ones in another study")
    return min(errors, key=lambda rate: errors[rate] or math.inf)
