"""The table of an evaluation, line by line for a terminal or whole as Markdown."""

from __future__ import annotations

from collections.abc import Mapping

from quadruped_sim.scenarios import Scenario
from quadruped_sim.score import Score, shortfalls

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
    judged = policy or expert
    assert judged is not None
    missing = shortfalls(expert, scenario.limits, expert=True) if expert else []
    found = [f"expert's {entry}" for entry in missing]
    found += shortfalls(policy, scenario.limits, expert=False) if policy else []
    return [
        scenario.name,
        _falls(expert),
        _falls(policy),
        f"< {judged.fall_bound:.1%}",
        " ".join(f"{error:.3f}" for error in judged.velocity),
        " ".join(f"{error:.3f}" for error in judged.bias),
        f"{judged.height:.3f}",
        "-" if judged.attitude is None else " ".join(f"{error:.3f}" for error in judged.attitude),
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
