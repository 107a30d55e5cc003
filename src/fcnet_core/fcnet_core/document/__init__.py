"""An HTML page that loads nothing, and elements of it. Every text in an element is escaped where that is made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from fcnet_core import FcnetError

STYLE = Path(__file__).with_name("document.css")
SCRIPTS = "; script-src 'unsafe-inline'; img-src data: blob:"  # plotly saves a plot as a picture by way of these


def document(title: str, body: str, style: str = "", scripts: Sequence[str] = ()) -> str:
    """The page; title and body are HTML, style is CSS beyond that of document.css, scripts run after the body."""
    policy = f"default-src 'none'; style-src 'unsafe-inline'{SCRIPTS if scripts else ''}"
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{title}</title><style>{STYLE.read_text()}{style}</style></head><body><main>{body}</main>"
        f"{''.join(f'<script>{script}</script>' for script in scripts)}</body></html>"
    )


def plotly() -> str:
    """The script of plotly.js, for a page with plots (4.8 MB). Raises FcnetError where it is not installed."""
    try:
        from plotly.offline import get_plotlyjs
    except ModuleNotFoundError as error:
        raise FcnetError("plots need the Python package plotly; install requirements/train.txt") from error
    return get_plotlyjs()


def constant(name: str, value: Any) -> str:
    """A line of a script: plain values by that name. No text in them can end the script."""
    return f"const {name} = {json.dumps(value)};\n".replace("<", "\\u003c")


def text(content: str, tag: str = "p") -> str:
    """A paragraph, or with tag h2 or h3 a heading."""
    return f"<{tag}>{escape(content)}</{tag}>"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column names its rows; without heads a list of facts; nothing where there are no rows."""
    if not rows:
        return ""
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join(
        f"<tr><th>{escape(name)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
        for name, *cells in rows
    )
    begin = f"<table><thead><tr>{head}</tr></thead>" if heads else '<table class="facts">'
    return f'<div class="scroll">{begin}<tbody>{body}</tbody></table></div>'
