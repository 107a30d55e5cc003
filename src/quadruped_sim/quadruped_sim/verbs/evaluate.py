"""fcnet evaluate: falls, tracking errors and return of the expert or a policy."""

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import as_completed
from pathlib import Path
from typing import get_args

from msgspec.structs import replace
from tqdm import tqdm

from fcnet_core.errors import SimulationError
from fcnet_core.files import Count, Seed, check_writable, option, write_whole
from fcnet_core.learning.runs import RunFolder
from fcnet_core.model_file import check_robot, load_model
from fcnet_core.observation.sensors import DEFAULT, SensorModel
from fcnet_core.robot import Robot, load_robot
from fcnet_core.verbs import STDOUT, add_json, check_json, markdown
from quadruped_sim.evaluation import results
from quadruped_sim.evaluation.scenarios import Scenario, getting_up, scenarios
from quadruped_sim.evaluation.score import Episodes, join, score_of
from quadruped_sim.evaluation.trial import Trial, trials
from quadruped_sim.worker_pool import Place, add_worker_options, worker_pool

ALL = "all"
SUMMARY = "measure a policy or the expert in closed loop: falls, tracking errors, return"
EPILOG = """
MODEL is a model file, a training run or a name of `fcnet list models`. The policy gets noisy measurements; the expert
gets the true state. The results depend only on the model, the seed and the number of episodes. If an evaluation with
--json FILE is interrupted, the same command resumes it. The results of a training run's best policy are kept in the
run, as evaluation.json and evaluation.md. --ray ADDRESS uses the cores of a Ray cluster (docs/scaling.md).

Two scenarios run only if they are named. stand_up: the robot stands up from its belly, stands and lies down;
successive episodes use the terrains in turn. recovery: the robot gets up after it was dropped or pushed over, on flat
ground and on a slope, and then walks.

exit code: 0 if all results are within their limits, or with --no-fail; otherwise 1. Results are written in both cases

examples:
  fcnet evaluate models/aliengo.safetensors --scenarios flat,stairs_6cm_up --episodes 30
  fcnet evaluate models/aliengo.safetensors --scenarios stand_up,recovery --episodes 48
  fcnet evaluate runs/aliengo-fcnet-1
  fcnet evaluate --teacher models/teachers/aliengo.safetensors --json expert.json
  fcnet evaluate models/aliengo.safetensors --baseline expert.json --json policy.json --markdown policy.md
  fcnet evaluate --list
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    who = parser.add_mutually_exclusive_group()
    who.add_argument("model", nargs="?", type=Path, metavar="MODEL", help="the policy to evaluate")
    who.add_argument("--expert", action="store_true", help="evaluate the built-in trot")
    who.add_argument("--teacher", type=Path, metavar="FILE", help="evaluate a teacher made by `fcnet teach`")
    who.add_argument("--list", action="store_true", help="list the scenarios with their limits and exit")
    parser.add_argument("--robot", metavar="NAME|FILE", help="the robot (default: the robot of the model, or aliengo)")
    which = "scenarios to run (default: all but stand_up and recovery)"
    parser.add_argument("--scenarios", default=ALL, metavar="NAME,...", help=which)
    episodes = "episodes per scenario (default: 300)"
    parser.add_argument("--episodes", type=option(Count), default=300, metavar="N", help=episodes)
    parser.add_argument("--seed", type=option(Seed), default=0, metavar="N", help="seed of all randomness (default: 0)")
    sensors = "sensor errors: those of a motor board, or the white noise of earlier releases (default: board)"
    parser.add_argument("--sensors", choices=get_args(SensorModel), default=DEFAULT, help=sensors)
    add_worker_options(parser)
    parser.add_argument("--no-fail", action="store_true", help="exit with 0 even if a result is outside its limit")
    parser.add_argument("--baseline", type=Path, metavar="JSON", help="results of the expert to compare with")
    add_json(parser)
    tables = "write the tables as Markdown; for a policy, with the header of a model card"
    parser.add_argument("--markdown", type=Path, metavar="FILE", help=tables)


def run(args: argparse.Namespace) -> int:
    """Evaluate the scenarios that are not in the JSON file yet; return 1 if one fails, 130 if interrupted."""
    if not (args.model or args.teacher or args.expert or args.list):
        raise SimulationError("nothing to evaluate; give a MODEL, --teacher FILE or --expert (--list: scenarios)")
    if args.model and args.model.is_dir():
        folder = RunFolder(args.model)
        args.json = args.json or str(folder.evaluation)
        args.markdown = args.markdown or folder.evaluation.with_suffix(".md")
    model = load_model(args.model) if args.model else None
    teacher = load_model(args.teacher) if args.teacher else None
    given = model or teacher
    robot = load_robot(args.robot or (given.card.interface.name if given else "aliengo"))
    if model:
        check_robot(model, robot)
    chosen = _chosen(robot, args.scenarios, args.list, args.sensors)
    if args.list:
        print("\n".join(_listing(scenario) for scenario in chosen))
        return 0
    check_json(args.json)
    check_writable(args.markdown)
    file = Path(args.json) if args.json and args.json != STDOUT else None
    policy, expert = (one.fingerprint if one else None for one in (model, teacher))
    subject = results.Subject(robot.name, policy, args.seed, args.episodes, expert, args.sensors)
    evaluation = results.continue_evaluation(file, subject)
    baseline = _baseline(args.baseline, subject).scenarios if args.baseline else {}
    done, table = evaluation.scenarios, sys.stderr if args.json == STDOUT else sys.stdout

    def cells(scenario: Scenario) -> list[str]:
        score = done[scenario.name]
        return results.row(scenario, *((score, baseline.get(scenario.name)) if model else (None, score)))

    kept = [cells(scenario) for scenario in chosen if scenario.name in done]
    print(*map(results.text_line, [results.COLUMNS, *kept]), sep="\n", file=table, flush=True)
    missing = [scenario for scenario in chosen if scenario.name not in done]
    name, who = args.robot or robot.name, (args.episodes, args.seed, model, teacher)
    try:
        for scenario, episodes in _measured([trials(name, scenario, *who) for scenario in missing], args.workers):
            done[scenario.name] = score_of(scenario, episodes)
            if file:
                evaluation.write(file)
            tqdm.write(results.text_line(cells(scenario)), file=table)
    except KeyboardInterrupt:
        advice = "run the same command again to resume" if file else "with --json FILE it could be resumed"
        print(f"fcnet: stopped after {len(done)} scenarios; {advice}", file=sys.stderr)
        return 130
    rows, scores = [cells(scenario) for scenario in chosen], {scenario.name: done[scenario.name] for scenario in chosen}
    missed = [line for line in rows if line[-1] != results.MET]
    overall = results.summary(done, baseline) if model else ""
    met = f"{len(rows) - len(missed)} of {len(rows)} scenarios meet their target. {overall}".strip()
    met += f" Sensors: {args.sensors} (docs/simulation.md)."
    more = [text for text in (results.gait_table(scores), results.speed_table(scores)) if text]
    print(met, results.LEGEND, *more, sep="\n", file=table)
    if args.json == STDOUT:
        print(evaluation.text(), end="")
    if args.markdown:
        card = results.card_head([robot.name, model.card.policy_type], args.sensors) if model else ""
        parts = [markdown(list(results.COLUMNS), rows), results.LEGEND, met, *more]
        write_whole(args.markdown, (card + "\n\n".join(parts) + "\n").encode(errors="replace"))
    for line in missed:
        print(f"fcnet: {line[0]} {line[-1]}", file=sys.stderr)
    return 1 if missed and not args.no_fail else 0


def _measured(work: list[list[Trial]], workers: Place) -> Iterator[tuple[Scenario, Episodes]]:
    """Yield each scenario with its episodes as soon as all its trials are complete."""
    steps = sum(trial.size * trial.periods for parts in work for trial in parts)
    with worker_pool(workers) as pool, tqdm(total=steps, unit="step", unit_scale=True, disable=not work) as bar:
        waiting = {pool.submit(trial.run): (trial, parts) for parts in work for trial in parts}
        done: dict[str, dict[int, Episodes]] = {parts[0].scenario.name: {} for parts in work}
        for future in as_completed(waiting):
            trial, parts = waiting[future]
            found = done[trial.scenario.name]
            found[trial.number] = future.result()
            bar.update(trial.size * trial.periods)
            if len(found) == len(parts):
                yield trial.scenario, join([found[number] for number in sorted(found)])


def _chosen(robot: Robot, names: str, listed: bool, sensors: SensorModel) -> list[Scenario]:
    """Return the scenarios of a comma-separated list of names. ALL: those of the walk, or all if they are `listed`."""
    walks, others = scenarios(robot, sensors), getting_up()
    known = walks | others
    if sensors != DEFAULT and (named := [name for name in names.split(",") if name in others]):
        raise SimulationError(f"{named[0]} has {DEFAULT} sensors only; leave out --sensors {sensors}")
    if names == ALL:
        return list((known if listed else walks).values())
    chosen = names.split(",")
    if unknown := [name for name in chosen if name not in known]:
        raise SimulationError(f"there is no scenario {unknown[0]!r}; choose from {', '.join(known)}")
    return [known[name] for name in known if name in chosen]


def _baseline(path: Path, subject: results.Subject) -> results.Evaluation:
    found = results.read_evaluation(path)
    if replace(found.subject, teacher=None) != replace(subject, policy=None, teacher=None):
        raise SimulationError(
            f"{path} is not the expert's evaluation on the {subject.robot} with seed {subject.seed}, {subject.episodes}"
            f" episodes and {subject.sensors} sensors; make it with the same options and --teacher FILE or --expert"
        )
    return found


def _listing(scenario: Scenario) -> str:
    limits = {name: limit for name, limit in vars(scenario.limits).items() if limit is not None}
    asked = [f"falls <= {limits.pop('falls'):.1%}", *(f"{name} <= {limit}" for name, limit in limits.items())]
    return f"{scenario.name:<20} {scenario.seconds:.0f} s: {'; '.join(asked)}"
