"""An HTML page that loads nothing, and elements of it. Every text in an element is escaped where that is made."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

STYLE = Path(__file__).with_name("page.css")


def document(title: str, body: str, style: str = "") -> str:
    """The page; title and body are HTML, style is CSS beyond that of page.css."""
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{title}</title><style>{STYLE.read_text()}{style}</style></head><body><main>{body}</main></body></html>"
    )


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
