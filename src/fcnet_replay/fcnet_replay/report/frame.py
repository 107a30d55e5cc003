"""What reports have around their plots: the verdict in words, and headings with the elements below them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Literal, NamedTuple

from fcnet_core.document import Page, text
from fcnet_replay.report.terms import LEVELS

Section = tuple[str, list[str]]  # heading and elements in HTML


class ReportFinding(NamedTuple):
    """A sentence of the verdict and whether it is a good one."""

    level: Literal["good", "note", "bad"]
    sentence: str


def verdict(found: Iterable[ReportFinding]) -> str:
    """Findings as a list."""
    return '<ul class="verdict">{}</ul>'.format(
        "".join(
            f'<li class="{finding.level}"><b>{LEVELS[finding.level]}</b><span>{escape(finding.sentence)}</span></li>'
            for finding in found
        )
    )


def add_sections(made: Page, sections: Sequence[Section], tag: str = "h2") -> None:
    """Headings and their elements at the end of the page's body."""
    made.body.append("<noscript><p>Plots and playback need JavaScript; the figures in tables do not.</p></noscript>")
    for heading, elements in sections:
        made.body += [text(heading, tag), *elements]
