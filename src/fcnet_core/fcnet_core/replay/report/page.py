"""Puts the page together: verdict first, then what it rests on."""

from __future__ import annotations

from html import escape
from pathlib import Path

from fcnet_core.replay.evaluation import Evaluation
from fcnet_core.replay.findings import findings
from fcnet_core.replay.report.motion_section import motion_section
from fcnet_core.replay.report.policy_section import policy_section
from fcnet_core.replay.report.recording_section import recording_section, started
from fcnet_core.replay.report.smoothness_section import smoothness_section
from fcnet_core.replay.report.style import STYLE
from fcnet_core.replay.report.timing_section import timing_section

WORDS = {"good": "fine", "note": "note", "bad": "problem"}


def page(evaluation: Evaluation) -> str:
    """The report as one HTML document that loads nothing."""
    title = f"Replay of {Path(evaluation.bag).name}"
    figures = evaluation.figures
    policies = ", ".join(f"{replay.label}: {replay.name}" for replay in evaluation.replays) or "none"
    sections = [
        recording_section(evaluation),
        policy_section(evaluation) if evaluation.replays else "",
        smoothness_section(evaluation) if evaluation.replays else "",
        motion_section(evaluation),
        timing_section(evaluation),
    ]
    lead = f"{figures['robot']}, {figures['duration_s']:.1f} s from {started(evaluation)}. Policies: {policies}"
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>"
        f'<h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p>{_verdict(evaluation)}{"".join(sections)}'
        "<footer>Made by fcnet replay. Times count from the first message; all angles are of joints in the order hip, "
        "thigh, calf of FR, FL, RR, RL.</footer></main></body></html>"
    )


def _verdict(evaluation: Evaluation) -> str:
    items = "".join(
        f'<li class="{finding.level}"><b>{WORDS[finding.level]}</b><span>{escape(finding.sentence)}</span></li>'
        for finding in findings(evaluation)
    )
    return f'<ul class="verdict">{items}</ul>'
