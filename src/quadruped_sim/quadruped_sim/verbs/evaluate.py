"""fcnet evaluate: how well the expert or a policy walks."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import as_completed
from pathlib import Path

from msgspec.structs import replace
from tqdm import tqdm

from fcnet_core.errors import SimulationError
from fcnet_core.files import Count, Seed, check_writable, option, write_whole
from fcnet_core.model_file import PolicyModel, load_model
from fcnet_core.robot import load_robot
from fcnet_core.runs.folder import RunFolder
from quadruped_sim.evaluation.cards import head
from quadruped_sim.evaluation.results import (
    COLUMNS,
    LEGEND,
    Evaluation,
    Subject,
    continue_evaluation,
    gait_table,
    markdown,
    mean_return,
    read_evaluation,
    row,
    speed_table,
    summary,
    text_line,
)
from quadruped_sim.evaluation.scenarios import Scenario, scenarios
from quadruped_sim.evaluation.score import Episodes, join, score_of
from quadruped_sim.evaluation.trial import trials
from quadruped_sim.rollout import check_walks_here
from quadruped_sim.worker_pool import Place, add_worker_options, worker_pool

SUMMARY = "measure the expert or a policy in closed loop: falls, tracking errors, return"
EPILOG = """
The policy sees what noisy sensors measure and nothing else; the expert sees the true state. The result depends on the
policy, the seed and the number of episodes alone. With --json, an interrupted evaluation goes on where it stopped. With
--ray ADDRESS the cores of a cluster work (docs/scaling.md). The folder of a training run stands for its best policy;
the results are then kept there, as evaluation.json and evaluation.md.

examples:
  fcnet evaluate --teacher models/teachers/aliengo.safetensors --json expert.json
  fcnet evaluate --policy models/aliengo.safetensors --baseline expert.json --json policy.json --markdown policy.md
  fcnet evaluate --policy models/aliengo.safetensors --scenarios flat,stairs_6cm_up --episodes 30
  fcnet evaluate --policy runs/aliengo-fcnet-1
  fcnet evaluate --policy models/aliengo.safetensors --scenarios flat,patch_0.1 --episodes 30 --report report.html
  fcnet evaluate --list
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--policy", type=Path, metavar="POLICY", help="evaluate this policy: a file, a run, a name")
    who.add_argument("--expert", action="store_true", help="evaluate the trot that teachers imitate")
    who.add_argument("--teacher", type=Path, metavar="FILE", help="evaluate this teacher, of `fcnet teach`")
    who.add_argument("--list", action="store_true", help="list the scenarios and what is expected, and stop")
    parser.add_argument("--robot", metavar="NAME", help="the robot (default: the policy's, else aliengo)")
    parser.add_argument("--scenarios", default="all", metavar="NAME,...", help="which scenarios (default: all)")
    parser.add_argument("--episodes", type=option(Count), default=300, metavar="N", help="of a scenario (default: 300)")
    parser.add_argument("--seed", type=option(Seed), default=0, metavar="N", help="seed of all randomness (default: 0)")
    add_worker_options(parser)
    parser.add_argument("--baseline", type=Path, metavar="JSON", help="the expert's results, to compare with")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here, and continue from them")
    parser.add_argument(
        "--markdown",
        type=Path,
        metavar="FILE",
        help="write the tables here; of a policy, with the head of a model card",
    )
    parser.add_argument(
        "--report", type=Path, metavar="HTML", help="write a page with tables, and episodes to play back, one file"
    )


def run(args: argparse.Namespace) -> int:
    """Evaluate what is not in the JSON file yet; 0 when all is measured, whether or not the targets are met."""
    if not (args.policy or args.teacher or args.expert or args.list):
        raise SimulationError("say what to evaluate: --policy FILE, --teacher FILE or --expert (or --list: scenarios)")
    if args.policy and args.policy.is_dir():
        folder = RunFolder(args.policy)
        args.json = args.json or folder.evaluation
        args.markdown = args.markdown or folder.evaluation.with_suffix(".md")
    model = load_model(args.policy) if args.policy else None
    teacher = load_model(args.teacher) if args.teacher else None
    given = model or teacher
    robot = load_robot(args.robot or (given.card.robot if given else "aliengo"))
    if model:
        check_walks_here(model, robot)
    chosen = _chosen(scenarios(robot), args.scenarios)
    if args.list:
        print("\n".join(_listing(scenario) for scenario in chosen))
        return 0
    check_writable(args.json, args.markdown, args.report)
    names = [given.fingerprint if given else None for given in (model, teacher)]
    subject = Subject(robot.name, names[0], args.seed, args.episodes, names[1])
    results = continue_evaluation(args.json, subject)
    baseline = _baseline(args.baseline, subject).scenarios if args.baseline else {}

    def cells(scenario: Scenario) -> list[str]:
        score = results.scenarios[scenario.name]
        return row(scenario, score, baseline.get(scenario.name)) if model else row(scenario, None, score)

    print(text_line(list(COLUMNS)))
    for scenario in chosen:
        if scenario.name in results.scenarios:
            print(text_line(cells(scenario)), flush=True)
    missing = [scenario for scenario in chosen if scenario.name not in results.scenarios]
    try:
        for scenario, episodes in _finished(missing, subject, model, teacher, args.workers):
            results.scenarios[scenario.name] = score_of(scenario, episodes)
            if args.json:
                results.write(args.json)
            tqdm.write(text_line(cells(scenario)))
    except KeyboardInterrupt:
        advice = "the same command line goes on from there" if args.json else "with --json FILE it could be continued"
        print(f"fcnet: stopped after {len(results.scenarios)} scenarios; {advice}", file=sys.stderr)
        return 130
    rows = [cells(scenario) for scenario in chosen]
    overall = summary(results.scenarios, baseline) if model else ""
    met = f"{sum(line[-1] == 'met' for line in rows)} of {len(rows)} scenarios meet their target. {overall}".strip()
    scores = {scenario.name: results.scenarios[scenario.name] for scenario in chosen}
    print(met, LEGEND, gait_table(scores), speed_table(scores), sep="\n")
    if args.markdown:
        tags = [robot.name, model.card.policy_type] if model else []
        card = head(args.policy.stem, tags, rows, mean_return(results.scenarios, baseline)) if model else ""
        write_whole(args.markdown, (card + markdown(rows, scores, met)).encode())
    if args.report:
        from quadruped_sim.evaluation.report import page, shown_episodes

        name = args.policy.stem if model else f"the teacher {args.teacher.stem}" if teacher else "the trot"
        shown = shown_episodes(subject, chosen, scores, model, teacher)
        write_whole(args.report, page(name, subject, rows, scores, met, shown).encode())
        print(f"wrote {args.report}; open it in a browser")
    return 0


def _finished(
    missing: list[Scenario],
    subject: Subject,
    model: PolicyModel | None,
    teacher: PolicyModel | None,
    workers: Place,
) -> Iterator[tuple[Scenario, Episodes]]:
    """Each scenario with its episodes, as soon as it is complete."""
    work = {s.name: trials(subject.robot, s, subject.episodes, subject.seed, model, teacher) for s in missing}
    steps = sum(trial.size * trial.periods for parts in work.values() for trial in parts)
    with worker_pool(workers) as pool, tqdm(total=steps, unit="step", unit_scale=True, disable=not missing) as bar:
        waiting = {pool.submit(trial.run): trial for parts in work.values() for trial in parts}
        done: dict[str, dict[int, Episodes]] = {name: {} for name in work}
        for future in as_completed(waiting):
            trial = waiting[future]
            done[trial.scenario.name][trial.number] = future.result()
            bar.update(trial.size * trial.periods)
            parts = done[trial.scenario.name]
            if len(parts) == len(work[trial.scenario.name]):
                yield trial.scenario, join([parts[number] for number in sorted(parts)])


def _chosen(known: dict[str, Scenario], names: str) -> list[Scenario]:
    wanted = list(known) if names == "all" else names.split(",")
    if unknown := [name for name in wanted if name not in known]:
        raise SimulationError(f"there is no scenario {unknown[0]!r}; choose from {', '.join(known)}")
    return [known[name] for name in known if name in wanted]


def _baseline(path: Path, subject: Subject) -> Evaluation:
    found = read_evaluation(path)
    if replace(found.subject, teacher=None) != replace(subject, policy=None, teacher=None):
        raise SimulationError(
            f"{path} is not the expert's evaluation on the {subject.robot} with seed {subject.seed} and "
            f"{subject.episodes} episodes; make it with the same options and --teacher FILE or --expert"
        )
    return found


def _listing(scenario: Scenario) -> str:
    limits = scenario.limits
    parts = [f"falls <= {limits.falls:.1%}"]
    if limits.velocity:
        parts.append("errors of vx, vy, yaw rate <= " + ", ".join(f"{error:g}" for error in limits.velocity))
    if limits.height and limits.attitude:
        parts.append(f"height <= {limits.height:g}, attitude <= {limits.attitude:g}")
    if limits.speed:
        parts.append(f"speeds within {limits.speed:.0%}")
    if limits.touchdowns and limits.saturation:
        parts.append(f"touchdowns <= {limits.touchdowns:g}, at the torque-speed curve <= {limits.saturation:.0%}")
    return f"{scenario.name:<20} {scenario.seconds:.0f} s: {'; '.join(parts)}"
