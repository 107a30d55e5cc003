"""What was recorded: facts, modes."""

from __future__ import annotations

from datetime import datetime, timezone
from html import escape

import numpy as np

from fcnet_core.replay.evaluation import Evaluation
from fcnet_core.replay.record_pickers import MODES
from fcnet_core.replay.report.table import table

WIDTH, HEIGHT = 720, 46


def recording_section(evaluation: Evaluation) -> str:
    """The section's HTML."""
    notes, figures = evaluation.notes, evaluation.figures
    policy = notes.model_fingerprint[:16] + "…" if notes.model_fingerprint else "not noted in the bag"
    facts = {
        "bag": evaluation.bag,
        "begins": started(evaluation),
        "robot": figures["robot"],
        "recorded policy": f"{notes.model} {policy}".strip(),
        "revision of the suite": notes.git_revision or "not noted in the bag",
    }
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts.items())
    return (
        f'<h2>Recording</h2><div class="scroll"><table class="facts"><tbody>{rows}</tbody></table></div>'
        f"{_modes(evaluation)}"
    )


def started(evaluation: Evaluation) -> str:
    """When the recording began, UTC."""
    first = start(evaluation)
    if not 0 <= first < 4e9:
        return "an unknown time"
    return datetime.fromtimestamp(first, tz=timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def start(evaluation: Evaluation) -> float:
    """Time zero of the plots [s]."""
    run = evaluation.run
    return float(min(np.min(run.joints.received), np.min(run.imu.received)))


def _modes(evaluation: Evaluation) -> str:
    mode, modes_s = evaluation.run.mode, evaluation.figures["modes_s"]
    if not modes_s:
        return "<p>The controller's modes were not recorded.</p>"
    first, duration = start(evaluation), max(evaluation.figures["duration_s"], 1e-9)
    ends = np.append(mode.received[1:], first + duration)
    shown = list(zip(mode.modes, mode.received.tolist(), ends.tolist(), strict=True))[:2000]
    bars = []
    for name, begun, ended in shown:
        left, right = (WIDTH * min(max((time - first) / duration, 0.0), 1.0) for time in (begun, ended))
        bars.append(
            f'<rect class="c{MODES.index(name)}" x="{left:.1f}" y="2" width="{max(right - left, 1.0):.1f}" height="20">'
            f"<title>{name}</title></rect>"
        )
    legend, at = [], 0
    for name in modes_s:
        legend.append(f'<rect class="c{MODES.index(name)}" x="{at}" y="32" width="10" height="10"/>')
        legend.append(f'<text x="{at + 15}" y="41">{name}</text>')
        at += 40 + 7 * len(name)
    rows = [[name, f"{seconds:.2f}", f"{seconds / duration:.1%}"] for name, seconds in modes_s.items()]
    return (
        f'<h3>Modes of the controller</h3><figure><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="modes over time">{"".join(bars)}{"".join(legend)}</svg></figure>'
        f"{table(['mode', 'time [s]', 'share'], rows)}"
    )
