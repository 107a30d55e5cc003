"""The report of an evaluation as one HTML page that loads nothing: scenarios, and episodes to play back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from fcnet_core.document import Page, table, text
from fcnet_core.document.plots import Plots
from fcnet_core.model_file import PolicyModel
from fcnet_core.robot import load_robot
from fcnet_replay.report.frame import ReportFinding, add_sections, glossary, verdict
from fcnet_replay.report.motion import motion_sections
from fcnet_replay.report.playback import Ground, add_scripts
from fcnet_replay.report.signals import Signals
from quadruped_sim.evaluation.results import COLUMNS, LEGEND, MET, Subject
from quadruped_sim.evaluation.scenarios import Scenario
from quadruped_sim.evaluation.score import Score
from quadruped_sim.evaluation.trace import BatchTrace
from quadruped_sim.evaluation.trial import Trial, trials
from quadruped_sim.physics.simulation import CONTROL_PERIOD
from quadruped_sim.physics.terrain import Terrain

MOST_FALLS = 3  # scenarios of which a fall is shown
MOST_TRIALS = 3  # batches of a scenario that are run again to find one
AROUND, CELL, MOST_CELLS = 2.8, 0.1, 160  # [m] of ground beyond the path, its cells [m], and how many in a row
TERMS = (
    "attitude", "contact", "cost of transport", "duty", "height", "power", "return", "RMS", "stance, swing",
    "target", "tilt", "torque", "touchdowns", "tracking error", "velocity",
)  # fmt: skip
ABOUT = f"""Episodes are run again for this page: the first one of the first scenario that does not end in a fall, and a
fall of each of up to {MOST_FALLS} scenarios, those with the largest share of falls."""


@dataclass(frozen=True)
class Episode:
    """An episode of the page: its number in the scenario, and whether it ends in a fall."""

    scenario: Scenario
    number: int
    fell: bool
    signals: Signals
    terrain: Terrain


def page(name: str, subject: Subject, rows: Sequence[Sequence[str]], met: str, episodes: Sequence[Episode]) -> str:
    """Return the page. name: of the policy or expert; rows: cells in COLUMNS order; met: the summary as text."""
    plots, made = Plots(), Page(f"Evaluation of {name}")
    lead = f"{subject.robot}, {len(rows)} scenarios, up to {subject.episodes} episodes of each, seed {subject.seed}"
    made.body += [text(made.title, "h1"), f'<p class="lead">{escape(lead)}</p>', verdict(_findings(rows, met))]
    scenarios = table(list(COLUMNS), [[*row[:-1], row[-1].partition(":")[0]] for row in rows])
    add_sections(made, [("Scenarios", [scenarios, text(LEGEND)]), ("Episodes", [text(ABOUT)])])
    for index, episode in enumerate(episodes):
        made.body.append(f"<section>{text(_heading(episode), 'h2')}")
        ground = ground_of(episode.terrain, episode.signals)
        add_sections(made, motion_sections(episode.signals, plots, f"episode{index}", ground), "h3")
        made.body.append("</section>")
    add_sections(made, [("Terms", [glossary(TERMS)])])
    made.body.append("<footer>Made by fcnet evaluate.</footer>")
    add_scripts(made, plots)
    return made.html()


def shown_episodes(
    subject: Subject,
    chosen: Sequence[Scenario],
    scores: Mapping[str, Score],
    model: PolicyModel | None,
    teacher: PolicyModel | None,
) -> list[Episode]:
    """Run a typical episode again, and one fall of each of the scenarios with the highest rate of falls."""
    chosen = [scenario for scenario in chosen if not scenario.getting_up]  # these have no trace
    falls = [scenario for scenario in chosen if scores[scenario.name].falls]
    falls.sort(key=lambda scenario: -scores[scenario.name].falls / scores[scenario.name].episodes)
    found = []
    typical = [(scenario, False) for scenario in chosen[:1]]
    for scenario, fell in [*typical, *((scenario, True) for scenario in falls[:MOST_FALLS])]:
        work = trials(subject.robot, scenario, subject.episodes, subject.seed, model, teacher)
        found += list(_first(work[:MOST_TRIALS], fell))[:1]
    return found


def ground_of(terrain: Terrain, signals: Signals) -> Ground | None:
    """Return the ground around the path; None if it is level at zero."""
    places = signals.run.odometry.position[:, :2]
    low, high = places.min(axis=0) - AROUND, places.max(axis=0) + AROUND
    step = max(CELL, float((high - low).max()) / MOST_CELLS)
    x, y = (np.arange(low[axis], high[axis] + step, step) for axis in (0, 1))
    heights = terrain.height(*np.meshgrid(x, y))
    return Ground(float(x[0]), float(y[0]), step, heights) if np.any(np.abs(heights) > 0.0005) else None


def _first(work: Sequence[Trial], fell: bool) -> Iterator[Episode]:
    """Yield the first episode of each batch that ends in a fall, or that does not."""
    for trial in work:
        trace = BatchTrace()
        matching = np.flatnonzero(trial.run(trace).fell == fell)
        if len(matching):
            index, robot = int(matching[0]), load_robot(trial.robot)
            number = sum(each.size for each in work[: trial.number]) + index + 1
            terrain = trial.scenario.build_terrain(trial.number)
            yield Episode(trial.scenario, number, fell, trace.signals(index, robot), terrain)


def _heading(episode: Episode) -> str:
    end = f"falls after {episode.signals.seconds + CONTROL_PERIOD:.1f} s" if episode.fell else "does not fall"
    return f"{episode.scenario.name}, episode {episode.number}: {end}"


def _findings(rows: Sequence[Sequence[str]], met: str) -> Iterator[ReportFinding]:
    missed = [row for row in rows if row[-1] != MET]
    yield ReportFinding("bad" if missed else "good", met)
    for row in missed:
        yield ReportFinding("bad", f"{row[0]} {row[-1]}.")
