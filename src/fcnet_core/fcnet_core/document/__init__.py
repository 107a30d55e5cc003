"""HTML pages that load nothing from elsewhere, and elements of them. Elements escape their texts."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

STYLE = Path(__file__).with_name("document.css")
SCRIPTS = "; script-src 'unsafe-inline' data:; img-src data: blob:"


@dataclass
class Page:
    """The parts of a page, which are added one by one.

    title: plain text; body: elements in HTML; style: CSS in addition to document.css; scripts: run before the body;
    modules: JavaScript modules by the names under which `main` and later modules import them ("./scene.js"); main: a
    module that runs last, with `constants` as global names.
    """

    title: str
    body: list[str] = field(default_factory=list)
    style: list[str] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)
    modules: dict[str, str] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    main: str = ""

    def html(self) -> str:
        """Return the page as one file."""
        scripted = SCRIPTS if self.main else ""
        return (
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'"
            f'{scripted}"><title>{escape(self.title)}</title>'
            f"<style>{STYLE.read_text(encoding='utf-8')}{''.join(self.style)}</style></head>"
            f"<body><main>{''.join(self.body)}</main>{self._scripts() if self.main else ''}</body></html>"
        )

    def _scripts(self) -> str:
        constants = "".join(constant(name, value) for name, value in self.constants.items())
        places: dict[str, str] = {}
        for name, source in self.modules.items():
            for other, address in places.items():  # a module in a data URL cannot import by a relative name
                source = source.replace(f'"{other}"', f'"{address}"')
            places[f"./{name}"] = f"data:text/javascript;base64,{base64.b64encode(source.encode()).decode()}"
        classic = "".join(f"<script>{script}</script>" for script in [*self.scripts, constants])
        imports = json.dumps({"imports": places})
        return f'{classic}<script type="importmap">{imports}</script><script type="module">{self.main}</script>'


def constant(name: str, value: Any) -> str:
    """Return a line of a script that defines plain values under a name; no text in them can end the script."""
    return f"const {name} = {json.dumps(value)};\n".replace("<", "\\u003c")


def text(content: str, tag: str = "p") -> str:
    """Return a paragraph, or with tag h2 or h3 a heading."""
    return f"<{tag}>{escape(content)}</{tag}>"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table with row names in the first column; without heads a list of facts, without rows nothing."""
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{escape(name)}</th>' if name else "<td></td>" for name in heads)
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>'
        for name, *cells in rows
    )
    begin = f"<table><thead><tr>{head}</tr></thead>" if heads else '<table class="facts">'
    label = escape(f"table of {rows[0][0]}, {', '.join(name for name in heads if name)}")
    scrolled = f'<div class="scroll" tabindex="0" role="group" aria-label="{label}">'
    return f"{scrolled}{begin}<tbody>{body}</tbody></table></div>"
