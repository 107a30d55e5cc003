"""Results of an evaluation: a JSON file, complete after every scenario, so that it can be continued, and a table."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fcnet_core.files import write_whole
from quadruped_sim import SimulationError
from quadruped_sim.evaluation import Score, shortfalls
from quadruped_sim.scenarios import Scenario

FORMAT_VERSION = 1


@dataclass(frozen=True)
class Subject:
    """Who was evaluated and how. `policy` is the model file's fingerprint, None for the expert."""

    robot: str
    policy: str | None
    seed: int
    episodes: int


@dataclass
class EvaluationFile:
    """Scores by scenario; `path` None keeps them in memory only."""

    subject: Subject
    path: Path | None = None
    scores: dict[str, Score] = field(default_factory=dict)

    def add(self, scenario: str, score: Score) -> None:
        """Keep a score, on disk at once."""
        self.scores[scenario] = score
        if self.path is not None:
            facts = {
                "format_version": FORMAT_VERSION,
                "subject": asdict(self.subject),
                "scenarios": {name: _to_json(entry) for name, entry in sorted(self.scores.items())},
            }
            write_whole(self.path, (json.dumps(facts, indent=1, allow_nan=False) + "\n").encode())


def continue_file(path: Path | None, subject: Subject) -> EvaluationFile:
    """The results at `path` so far, or none yet. Raises SimulationError when they are of another subject."""
    if path is None or not path.exists():
        return EvaluationFile(subject, path)
    found = read_evaluation(path)
    if found.subject != subject:
        names = [name for name, value in vars(subject).items() if getattr(found.subject, name) != value]
        raise SimulationError(
            f"{path} holds an evaluation with another {', '.join(names)}; choose another file, or delete this one"
        )
    return found


def read_evaluation(path: Path) -> EvaluationFile:
    """Read a result file. Raises SimulationError when it is missing or damaged."""
    if not path.is_file():
        raise SimulationError(f"there is no result file {path}; make one with `fcnet evaluate --json {path}`")
    try:
        facts = json.loads(path.read_text())
        if facts["format_version"] != FORMAT_VERSION:
            raise SimulationError(
                f"{path} has format {facts['format_version']}, expected {FORMAT_VERSION}; run it again"
            )
        scores = {name: _from_json(**entry) for name, entry in facts["scenarios"].items()}
        return EvaluationFile(Subject(**facts["subject"]), path, scores)
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise SimulationError(f"result file {path} is damaged ({error}); delete it and evaluate again") from error


def _to_json(score: Score) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        if isinstance(value, tuple):
            return [plain(entry) for entry in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return {name: plain(value) for name, value in vars(score).items()} | {"fall_bound": score.fall_bound}


def _from_json(
    velocity: list[float | None], bias: list[float | None], attitude: list[float | None] | None, **rest: Any
) -> Score:
    del rest["fall_bound"]
    vx, vy, yaw_rate = (_number(value) for value in velocity)
    bias_x, bias_y, bias_yaw = (_number(value) for value in bias)
    tilt = None if attitude is None else (_number(attitude[0]), _number(attitude[1]))
    rest["height"] = _number(rest["height"])
    return Score(velocity=(vx, vy, yaw_rate), bias=(bias_x, bias_y, bias_yaw), attitude=tilt, **rest)


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


COLUMNS = {
    "scenario": 19,
    "expert falls": 13,
    "policy falls": 13,
    "(95 % bound)": 13,
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
    "rate. Return: of the expert's."
)
LOWEST_RETURN = 0.97  # of the expert's


def row(scenario: Scenario, policy: Score | None, expert: Score | None) -> list[str]:
    """The cells of one scenario, in COLUMNS order; at least one score is known."""
    shown = policy or expert
    assert shown is not None
    missing = shortfalls(expert, scenario.limits, expert=True) if expert else []
    found = [f"expert's {entry}" for entry in missing]
    found += shortfalls(policy, scenario.limits, expert=False) if policy else []
    return [
        scenario.name,
        _falls(expert),
        _falls(policy),
        f"< {shown.fall_bound:.1%}",
        " ".join(f"{error:.3f}" for error in shown.velocity),
        " ".join(f"{error:.3f}" for error in shown.bias),
        f"{shown.height:.3f}",
        "-" if shown.attitude is None else " ".join(f"{error:.3f}" for error in shown.attitude),
        "-" if policy is None or expert is None else f"{policy.mean_return / expert.mean_return:.1%}",
        "missed: " + ", ".join(found) if found else "met",
    ]


def heading() -> str:
    """The first line of the table in a terminal."""
    return text_line(list(COLUMNS))


def text_line(cells: list[str]) -> str:
    """One line of the table in a terminal."""
    return " ".join(cell.ljust(width) for cell, width in zip(cells, COLUMNS.values(), strict=True)).rstrip()


def summary(policy: Mapping[str, Score], expert: Mapping[str, Score]) -> str:
    """The mean return over all scenarios that both were scored in, as one sentence; empty when there is none."""
    common = [name for name in policy if name in expert]
    if not common:
        return ""
    ratio = sum(policy[name].mean_return for name in common) / sum(expert[name].mean_return for name in common)
    verdict = f"target {LOWEST_RETURN:.0%}: {'met' if ratio >= LOWEST_RETURN else 'missed'}"
    return f"Mean return over {len(common)} scenarios: {ratio:.1%} of the expert's ({verdict})."


def markdown(rows: list[list[str]], notes: str) -> str:
    """The whole table as Markdown, with `notes` below it."""
    lines = [f"| {' | '.join(cells)} |" for cells in [list(COLUMNS), ["---"] * len(COLUMNS), *rows]]
    return "\n".join([*lines, "", LEGEND, "", notes, ""])


def _falls(score: Score | None) -> str:
    return "-" if score is None else f"{score.falls} of {score.episodes}"
