"""The report of a replay as one HTML page, verdict first."""

from __future__ import annotations

from html import escape
from pathlib import Path

from fcnet_replay.evaluation import Evaluation
from fcnet_replay.findings import findings
from fcnet_replay.report.sections import (
    motion_section,
    policy_section,
    recording_section,
    smoothness_section,
    started,
    timing_section,
)

# The page's appearance: light, dark and on paper.

STYLE = """
:root { color-scheme: light dark;
  --ink: #1c2430; --soft: #5b6675; --paper: #ffffff; --panel: #f4f6f8; --rule: #d9dee5;
  --good: #1d7a46; --note: #8a5a00; --bad: #b3261e;
  --c0: #4a5568; --c1: #0b72c4; --c2: #d9630a; --c3: #198754; --c4: #8b3fc4; --c5: #b8860b; }
@media (prefers-color-scheme: dark) { :root {
  --ink: #e6eaf0; --soft: #9aa6b5; --paper: #12161c; --panel: #1b212a; --rule: #343d4a;
  --good: #5fd394; --note: #f0b84a; --bad: #ff8a80;
  --c0: #aab4c2; --c1: #5ab0ff; --c2: #ff9c54; --c3: #5fd394; --c4: #c792ff; --c5: #e5c04b; } }
@media print { :root {
  --ink: #000; --soft: #444; --paper: #fff; --panel: #fff; --rule: #bbb; --good: #1d7a46; --note: #8a5a00;
  --bad: #b3261e; --c0: #4a5568; --c1: #0b72c4; --c2: #d9630a; --c3: #198754; --c4: #8b3fc4; --c5: #b8860b; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 28px 24px 60px; }
h1 { font-size: 26px; line-height: 1.2; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 19px; margin: 38px 0 6px; padding-top: 12px; border-top: 1px solid var(--rule); }
h3 { font-size: 15px; margin: 20px 0 4px; }
p { margin: 4px 0 12px; max-width: 78ch; }
p.lead { color: var(--soft); }
ul.verdict { list-style: none; margin: 18px 0; padding: 14px 18px; background: var(--panel); border-radius: 8px; }
ul.verdict li { display: flex; gap: 12px; padding: 3px 0; overflow-wrap: anywhere; }
ul.verdict b { flex: 0 0 82px; text-transform: uppercase; font-size: 12px; line-height: 23px; letter-spacing: .04em; }
.good b { color: var(--good); } .note b { color: var(--note); } .bad b { color: var(--bad); }
.scroll { overflow-x: auto; margin: 8px 0 16px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13.5px; }
th, td { padding: 3px 14px 3px 0; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--rule); }
th:first-child { text-align: left; } thead th { color: var(--soft); font-weight: 600; vertical-align: bottom; }
tbody th { font-weight: 500; }
table.facts td, table.facts th { text-align: left; white-space: normal; vertical-align: top; overflow-wrap: anywhere; }
figure { margin: 10px 0; } svg { display: block; width: 100%; height: auto; }
.joints { display: grid; grid-template-columns: repeat(3, 1fr); gap: 4px 14px; }
svg text { fill: var(--ink); font: 11px system-ui, sans-serif; }
svg .title { font-weight: 600; font-size: 12.5px; } svg .tick, svg .axis, svg .legend { fill: var(--soft); }
svg path { fill: none; } svg .frame { stroke: var(--soft); } svg .grid { stroke: var(--rule); stroke-width: .7; }
svg .line { stroke-width: 1.3; stroke-linejoin: round; } svg .limit { stroke: var(--bad); stroke-dasharray: 5 4; }
svg .c0 { stroke: var(--c0); } svg .c1 { stroke: var(--c1); } svg .c2 { stroke: var(--c2); }
svg .c3 { stroke: var(--c3); } svg .c4 { stroke: var(--c4); } svg .c5 { stroke: var(--c5); }
svg rect.c0 { fill: var(--c0); } svg rect.c1 { fill: var(--c1); } svg rect.c2 { fill: var(--c2); }
svg rect.c3 { fill: var(--c3); } svg rect.c4 { fill: var(--c4); } svg rect.c5 { fill: var(--c5); }
footer { margin-top: 40px; color: var(--soft); font-size: 13px; }
@media screen and (max-width: 760px) { .joints { grid-template-columns: 1fr; } main { padding: 18px 14px; } }
@media print { @page { margin: 14mm 12mm; } body { font-size: 10.5pt; } main { max-width: none; padding: 0; }
  h2, h3 { break-after: avoid; } figure, tr, ul.verdict { break-inside: avoid; } table { font-size: 9.5pt; }
  ul.verdict { border: 1px solid var(--rule); } th, td { padding-right: 9px; } .scroll { overflow: visible; }
  tbody th { white-space: normal; overflow-wrap: anywhere; min-width: 24mm; } }
"""


# Puts the page together: verdict first, then what it rests on.

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
