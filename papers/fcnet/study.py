"""Policies trained on parts of the data, and how they walk: Figures 4, 8 and 9.

    python -m papers.fcnet.study data --data data/aliengo --out runs/study-data
    python -m papers.fcnet.study ablations --data data/aliengo --out runs/study-ablations
    python -m papers.fcnet.study policies --data data/aliengo --out runs/study-policies
    python -m papers.fcnet.study data --out papers/fcnet/results/data      # only the table, from committed results

Every variant of the settings is trained on every share of the data with every seed, and every policy walks through the
scenarios of `fcnet evaluate`. Each result is a file; the same command continues an interrupted study:

    OUT/study.json              the settings
    OUT/data/SHARE/             the part of the data that jobs of this share train on; data/validation: held out
    OUT/models/JOB.safetensors  the policies
    OUT/train/JOB.json          training and validation error
    OUT/walk/JOB.json           scores in every scenario, as `fcnet evaluate --json` writes them
    OUT/latency.json            duration of a step of each variant [s]
    OUT/results.md, .json, .png the table and the figure
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, as_completed
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from tqdm import tqdm

from fcnet_core.bench import Pace, interleave, observations, stepping
from fcnet_core.errors import FcnetError
from fcnet_core.files import write_whole
from fcnet_core.learning.config import with_settings
from fcnet_core.learning.dataset import Dataset
from fcnet_core.learning.imitation import envelope_of
from fcnet_core.model_file import PolicyModel, load_model, save_model
from fcnet_core.policy import load_policy
from fcnet_core.robot import load_robot
from papers.fcnet.study_jobs import Trained, TrainJob, write_parts
from papers.fcnet.study_settings import Plan, StudyConfig, load_plan
from papers.fcnet.study_table import Results, draw, table
from papers.shared import claim_folder, markdown, read_json, run, untrained
from quadruped_sim.evaluation.results import Evaluation, Subject, continue_evaluation, read_evaluation
from quadruped_sim.evaluation.scenarios import Scenario, scenarios
from quadruped_sim.evaluation.score import join, score_of
from quadruped_sim.evaluation.trial import Trial, trials
from quadruped_sim.worker_pool import Place, add_worker_options, worker_pool

EXPERT = "expert"
LATENCY = Pace(20, 50)


class Begun(Struct, frozen=True):
    """The content of study.json: results of other settings, robots or data must not be mixed with those there."""

    study: StudyConfig
    training: dict[str, dict[str, Any]]  # all settings of each variant, defaults included
    robot: str
    recorded_steps: int


class Study:
    """A study in its folder; without data it only collects results. Raises FcnetError if settings differ."""

    def __init__(self, plan: Plan, data: Dataset | None, folder: Path) -> None:
        self.plan, self.data, self.folder = plan, data, folder
        values = {name: with_settings(settings, data=()).entries for name, settings in plan.train.items()}
        training: dict[str, dict[str, Any]] = json.loads(json.dumps(values))  # as they are read from the file
        if data:
            robot, steps = data.manifest.robot, data.steps
        elif (folder / "study.json").exists():
            found: Begun = read_json(folder / "study.json", Begun)
            robot, steps = found.robot, found.recorded_steps
        else:
            raise FcnetError(f"{folder} holds no study; give the folder of the training data as --data")
        self.robot = load_robot(robot)
        known = scenarios(self.robot, "white")
        if unknown := [name for name in plan.config.scenarios if name not in known]:
            raise FcnetError(f"there is no scenario {unknown[0]!r}; choose from {', '.join(known)}")
        self.scenarios = [known[name] for name in plan.config.scenarios or known]
        self.teacher = load_model(plan.teacher) if plan.teacher else None
        claim_folder(folder, Begun(plan.config, training, robot, steps))

    def run(self, workers: Place) -> Iterator[Results]:
        """Do the missing jobs, one share after the other of each seed. Yield the results after each of them.

        Policies walk before those of the next share are trained: an interrupted study has whole rows of its table.
        """
        config, smallest = self.plan.config, min(self.plan.config.shares)
        with worker_pool(workers) as pool:
            rates = self._rates(pool)

            def jobs(names: list[str], share: float, seed: int) -> list[TrainJob]:
                return [self._job(name, share, rates[name], seed) for name in names]

            expert = self._evaluate(pool, {EXPERT: None})[EXPERT]
            results = Results(self.plan, {}, {}, expert, self._latency())
            for seed, share in product(config.seeds, config.shares):
                yield (results := self._with(results, pool, jobs(list(config.variants), share, seed)))
            for seed in config.further.seeds if config.further else ():
                leading = results.leading(smallest, config.further.leading) if config.further else []
                yield (results := self._with(results, pool, jobs(leading, smallest, seed)))

    def _job(self, variant: str, share: float, rate: float, seed: int) -> TrainJob:
        return TrainJob(variant, share, with_settings(self.plan.train[variant], learning_rate=rate, seed=seed))

    def _rates(self, pool: Executor) -> dict[str, float]:
        """Return the learning rate of each variant; several are tried on the smallest share with the first seed."""
        config = self.plan.config
        tried = {
            name: [self._job(name, min(config.shares), rate, config.seeds[0]) for rate in variant.learning_rates]
            for name, variant in config.variants.items()
        }
        self._train(pool, [job for jobs in tried.values() if len(jobs) > 1 for job in jobs])
        return {
            name: best_rate([self._result(job) for job in jobs]) if len(jobs) > 1 else jobs[0].settings.learning_rate
            for name, jobs in tried.items()
        }

    def _with(self, results: Results, pool: Executor, jobs: list[TrainJob]) -> Results:
        """Return the results with those of further jobs."""
        self._train(pool, jobs, walk=True)
        trained = {job.name: self._result(job) for job in jobs}
        names = [name for name, one in trained.items() if one.validation_error is not None]
        walked = {name: whole for name in names if (whole := self._whole_evaluation(name))}
        walked |= self._evaluate(pool, {name: load_model(self._model(name)) for name in names if name not in walked})
        return replace(results, trained=results.trained | trained, walked=results.walked | walked)

    def _train(self, pool: Executor, jobs: list[TrainJob], walk: bool = False) -> None:
        """Do the jobs without a result; if they `walk`, also the jobs without a policy to evaluate."""
        missing = [job for job in jobs if not self._is_trained(job, walk)]
        if not missing:
            return
        if self.data is None:
            raise FcnetError(f"{self.folder} lacks the result of {missing[0].name}; give --data to train it")
        parts, envelope = self.folder / "data", envelope_of(self.data, self.robot)
        write_parts(self.data, parts, self.plan.config.shares)
        waiting = {pool.submit(job.run, parts, envelope): job.name for job in missing}
        for future in tqdm(as_completed(waiting), total=len(waiting), desc="training", disable=None):
            name, (trained, model) = waiting[future], future.result()
            self._walk(name).unlink(missing_ok=True)  # of an earlier policy of this name
            if model:
                save_model(model, self._model(name))
            write_whole(self._trained(name), msgspec.json.format(msgspec.json.encode(trained), indent=1))

    def _is_trained(self, job: TrainJob, walk: bool) -> bool:
        """Return whether the result exists and, if it walks, the policy or its whole evaluation."""
        if not self._trained(job.name).exists():
            return False
        diverged = self._result(job).validation_error is None
        return not walk or diverged or self._model(job.name).exists() or self._whole_evaluation(job.name) is not None

    def _whole_evaluation(self, name: str) -> Evaluation | None:
        """Return the scores of a policy that has walked through every scenario; its model is not needed any more."""
        path = self._walk(name)
        found = read_evaluation(path) if path.exists() else None
        return found if found and all(scenario.name in found.scenarios for scenario in self.scenarios) else None

    def _result(self, job: TrainJob) -> Trained:
        found: Trained = read_json(self._trained(job.name), Trained)
        return found

    def _trained(self, name: str) -> Path:
        return self.folder / "train" / f"{name}.json"

    def _model(self, name: str) -> Path:
        return self.folder / "models" / f"{name}.safetensors"

    def _walk(self, name: str) -> Path:
        return self.folder / "walk" / f"{name}.json"

    def _evaluate(self, pool: Executor, models: Mapping[str, PolicyModel | None]) -> dict[str, Evaluation]:
        """Return the scores of policies by name in every scenario; None is the expert."""
        found = {name: continue_evaluation(self._walk(name), self._subject(model)) for name, model in models.items()}
        waiting = [
            (name, scenario, [pool.submit(trial.run) for trial in self._trials(scenario, model)])
            for name, model in models.items()
            for scenario in self.scenarios
            if scenario.name not in found[name].scenarios
        ]
        for name, scenario, parts in tqdm(waiting, desc="walking", disable=None):
            found[name].scenarios[scenario.name] = score_of(scenario, join([part.result() for part in parts]))
            found[name].write(self._walk(name))
        return found

    def _trials(self, scenario: Scenario, model: PolicyModel | None) -> list[Trial]:
        episodes, teacher = self.plan.config.episodes, None if model else self.teacher
        return trials(self.robot.name, scenario, episodes, 0, model, teacher)

    def _subject(self, model: PolicyModel | None) -> Subject:
        policy = model.fingerprint if model else None
        teacher = self.teacher.fingerprint if self.teacher and not model else None
        return Subject(self.robot.name, policy, 0, self.plan.config.episodes, teacher)

    def _latency(self) -> dict[str, float]:
        """Return the median duration of a compiled step [s] by variant, measured in turn once a study."""
        path = self.folder / "latency.json"
        if not path.exists():
            models = {name: untrained(settings.policy_config) for name, settings in self.plan.train.items()}
            calls = {name: stepping(load_policy(model), observations(model)) for name, model in models.items()}
            timing = interleave(calls, LATENCY)
            write_whole(path, json.dumps({name: timing.quantile(name, 0.5) for name in calls}, indent=1).encode())
        return dict(read_json(path, dict[str, float]))


def best_rate(tried: list[Trained]) -> float:
    """Return the learning rate with the smallest validation error. Raises FcnetError if all diverged."""
    errors = {one.validation_error: one.learning_rate for one in tried if one.validation_error is not None}
    if not errors:
        raise FcnetError(f"{tried[0].variant} diverged with every learning rate; give lower ones in another study")
    return errors[min(errors)]


def main() -> None:
    """Do the missing jobs, and write the table and the figure after each part."""
    import torch

    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("study", help="data, ablations, policies, or a YAML file of settings")
    options.add_argument("--data", action="append", metavar="DIR", help="training data; repeat for several folders")
    options.add_argument("--out", required=True, type=Path, metavar="DIR", help="the study's folder")
    add_worker_options(options)
    args = options.parse_args()
    torch.set_num_threads(1)
    own = Path(__file__).parent / f"{args.study}.yaml"
    study = Study(load_plan(own if own.exists() else Path(args.study)), args.data and Dataset(args.data), args.out)
    for results in study.run(args.workers):
        found = table(results)
        write_whole(args.out / "results.json", json.dumps(asdict(found), indent=1).encode())
        write_whole(args.out / "results.md", markdown(found).encode())
        draw(results, args.out / "results.png")
    print(found.text())


if __name__ == "__main__":
    run(main)
