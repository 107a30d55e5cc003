"""Results of an evaluation: a JSON file, complete after every scenario, so that it can be continued, and a table."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
import yaml
from msgspec import Struct

from fcnet_core.errors import SimulationError
from fcnet_core.files import write_whole
from fcnet_core.observation import SensorModel
from fcnet_core.verbs import markdown
from quadruped_sim.evaluation.scenarios import ALL_COMMANDS, Scenario
from quadruped_sim.evaluation.score import Score, shortfalls


class Subject(Struct, frozen=True):
    """The evaluated policy or expert and the settings. `policy` and `teacher`: fingerprints of model files; without one
    it is the trot. sensors: model of their errors, `white` in files of earlier releases.
    """

    robot: str
    policy: str | None
    seed: int
    episodes: int
    teacher: str | None = None
    sensors: SensorModel = "white"


class Evaluation(Struct, kw_only=True):
    """The content of a result file: scores by scenario."""

    format_version: Literal[2] = 2
    subject: Subject
    scenarios: dict[str, Score] = {}

    def text(self) -> str:
        """Return the content as JSON; errors that are not numbers become null."""
        return msgspec.json.format(msgspec.json.encode(self, order="deterministic"), indent=1).decode() + "\n"

    def write(self, path: Path) -> None:
        """Write the file whole or not at all."""
        write_whole(path, self.text().encode())


def read_evaluation(path: Path) -> Evaluation:
    """Read a result file. Raises SimulationError if it is missing or damaged."""
    if not path.is_file():
        raise SimulationError(f"there is no result file {path}; make one with `fcnet evaluate --json {path}`")
    try:
        return msgspec.json.decode(path.read_bytes(), type=Evaluation)
    except ValueError as error:
        raise SimulationError(f"result file {path} is damaged ({error}); delete it and evaluate again") from error


def continue_evaluation(path: Path | None, subject: Subject) -> Evaluation:
    """Return the results at `path` so far, or none yet. Raises SimulationError if they are of another subject."""
    if path is None or not path.exists():
        return Evaluation(subject=subject)
    found = read_evaluation(path)
    names = [name for name in subject.__struct_fields__ if getattr(found.subject, name) != getattr(subject, name)]
    if names:
        raise SimulationError(
            f"{path} holds an evaluation with another {', '.join(names)}; choose another file, or delete this one"
        )
    return found


COLUMNS = {
    "scenario": 19,
    "expert falls": 13,
    "policy falls": 13,
    "(95 % bound)": 13,
    "began lying": 12,
    "vx, vy, yaw": 17,
    "bias": 17,
    "height": 8,
    "roll, pitch": 12,
    "return": 7,
    "target": 0,
}
LEGEND = (
    "Mean absolute errors of averages over a stride: vx, vy [m/s], yaw rate [rad/s], height [m], roll, pitch [rad], of "
    "the policy where there is one, else of the expert. Bias: the same of averages over a whole episode, vx, vy, yaw "
    "rate. Began lying: falls of the episodes, counted in the others too, that begin with standing up. Return: of the "
    "expert's."
)
LOWEST_RETURN = 0.99  # of the expert's
MET = "met"  # in the column "target" of a scenario whose limits are all met


def row(scenario: Scenario, policy: Score | None, expert: Score | None) -> list[str]:
    """Return the cells of one scenario in COLUMNS order; at least one score is known."""
    shown = policy or expert
    assert shown is not None
    missing = shortfalls(expert, scenario.limits, expert=True) if expert else []
    found = [f"expert's {entry}" for entry in missing]
    found += shortfalls(policy, scenario.limits, expert=False) if policy else []
    return [
        scenario.name,
        *("-" if score is None else f"{score.falls} of {score.episodes}" for score in (expert, policy)),
        f"< {shown.fall_bound:.1%}",
        f"{shown.lying_falls} of {shown.lying_episodes}",
        *(
            "-" if errors is None or all(map(math.isnan, errors)) else " ".join(f"{error:.3f}" for error in errors)
            for errors in (shown.velocity, shown.bias, (shown.height,), shown.attitude)
        ),
        "-" if not (policy and expert and expert.mean_return) else f"{policy.mean_return / expert.mean_return:.1%}",
        "missed: " + ", ".join(found) if found else MET,
    ]


def text_line(cells: Iterable[str]) -> str:
    """Return a row of the table for a terminal."""
    return " ".join(cell.ljust(width) for cell, width in zip(cells, COLUMNS.values(), strict=True)).rstrip()


def mean_return(policy: Mapping[str, Score], expert: Mapping[str, Score]) -> float | None:
    """Return the policy's mean return / the expert's, over the scenarios with the same commands for both that were
    evaluated with both; None if the expert has none.
    """
    common = [name for name in policy if name in expert and name not in ALL_COMMANDS]
    of_expert = sum(expert[name].mean_return for name in common)
    return sum(policy[name].mean_return for name in common) / of_expert if of_expert else None


def summary(policy: Mapping[str, Score], expert: Mapping[str, Score]) -> str:
    """Return the mean return as text; empty if there is none."""
    ratio = mean_return(policy, expert)
    if ratio is None:
        return ""
    verdict = f"target {LOWEST_RETURN:.0%}: {'met' if ratio >= LOWEST_RETURN else 'missed'}"
    return f"Mean return, without {' and '.join(ALL_COMMANDS)}: {ratio:.1%} of the expert's ({verdict})."


GAIT_COLUMNS = {  # figure of GaitQuality -> its column and format
    "slip": ("slip", ".3f"),
    "slip_share": ("of the speed", ".1%"),
    "touchdowns": ("touchdowns", ".2f"),
    "clearance": ("clearance", ".3f"),
    "duty": ("duty", ".2f"),
    "cost_of_transport": ("cost of transport", ".2f"),
    "torque_saturation": ("torque limit", ".1%"),
    "joint_torque_saturation": ("(joints)", ".1%"),
    "speed_saturation": ("torque-speed curve", ".1%"),
    "joint_speed_saturation": ("(joints)", ".1%"),
}
GAIT_LEGEND = (
    "Slip: speed of feet on the ground [m/s], and as a share of the trunk's. Touchdowns: per foot and stride. "
    "Clearance [m]: highest point of a swing. Duty: share of the time on the ground. Cost of transport: positive "
    "mechanical work per weight and distance. Torque limit, torque-speed curve: share of the time for which some joint "
    "is at it, and of the joints' time. Sampled every 4 ms."
)


def gait_table(scores: Mapping[str, Score]) -> str:
    """Return gait quality in Markdown, one scenario a row without those of getting up; empty if there is none."""
    rows = []
    for name, score in scores.items():
        figures = [(getattr(score.gait, figure), form) for figure, (_, form) in GAIT_COLUMNS.items()]
        if not math.isnan(score.gait.torque_saturation):
            rows.append([name, *("-" if math.isnan(value) else f"{value:{form}}" for value, form in figures)])
    header = ["scenario", *(column for column, _ in GAIT_COLUMNS.values())]
    return markdown(header, rows) + f"\n\n{GAIT_LEGEND}" if rows else ""


def speed_table(scores: Mapping[str, Score]) -> str:
    """Return commanded and reached speeds [m/s] in Markdown, one scenario a row; empty if none were held."""
    reached = {name: dict(score.speeds) for name, score in scores.items() if score.speeds}
    asked = sorted({speed for speeds in reached.values() for speed in speeds})
    rows = [
        [name, *(f"{speeds[speed]:.2f}" if speed in speeds else "-" for speed in asked)]
        for name, speeds in reached.items()
    ]
    return markdown(["asked [m/s]", *(f"{speed:g}" for speed in asked)], rows) if rows else ""


def card_head(tags: Sequence[str], sensors: SensorModel) -> str:
    """Return the head of a model card, as the hub reads it, with the lines that enclose it. sensors: of its results."""
    facts = {
        "license": "apache-2.0",
        "library_name": "fcnet",
        "pipeline_tag": "robotics",
        "tags": ["robotics", "legged-robot", *tags],
        "sensors": sensors,
    }
    return f"---\n{yaml.safe_dump(facts, sort_keys=False)}---\n\n"
