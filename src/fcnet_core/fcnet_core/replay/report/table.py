"""Tables and lists of the page; everything that comes from a bag is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column names its rows."""
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join(
        f"<tr><th>{escape(row[0])}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in row[1:])}</tr>" for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def number(value: float | None, form: str = ".3g", unit: str = "", scale: float = 1.0) -> str:
    """A figure with its unit, or a dash where it is not known."""
    if value is None:
        return "–"
    return f"{value * scale:{form}}{unit}"
