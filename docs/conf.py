"""The documentation site: `make docs` builds it from the Markdown files of the repository, without a network.

The repository's root is the source folder, so that a link between two pages, or to a file next to docs/, is the same
here and where a browser shows the repository.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer

project = "fcnet"
author = copyright = "The fcnet developers, Apache-2.0"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "docs/index"
include_patterns = ["docs/*.md", "docs/api/*.md", "models/*.md", "papers/README.md", "papers/*/README.md"]
include_patterns += ["CONTRIBUTING.md", "CHANGELOG.md"]
exclude_patterns = [".*", "build", "dist", "install", "log", "src", "tools", "data", "runs", "requirements", "config"]
html_theme = "furo"
html_title = "fcnet"
html_copy_source = False
html_show_sphinx = False
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["myst.header"]  # a page may begin with what stands before its title
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
# Libraries that only training needs are not installed for the site; the pages show nothing of them.
_TRAINING = ("torch", "gymnasium", "scipy", "stable_baselines3")
autodoc_mock_imports = [name for name in _TRAINING if find_spec(name) is None]

_SPECIAL = re.compile(r"([\\*|]|_(?!\w))")


def _literal_docstring(_app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """Docstrings are plain text: names in backticks become code, and what is indented is shown as it stands."""
    text: list[str] = []
    for paragraph in "\n".join(lines).split("\n\n"):
        rows = paragraph.splitlines()
        if any(row.startswith(("  ", "- ", "* ")) or "  #" in row for row in rows):
            text += ["::", "", *(f"    {row}" for row in rows), ""]
        else:
            pieces = " ".join(row.strip() for row in rows).split("`")
            coded = (f"``{piece}``" if n % 2 else _SPECIAL.sub(r"\\\1", piece) for n, piece in enumerate(pieces))
            text += ["".join(coded), ""]
    lines[:] = text


def _accessible(_app: Any, _page: str, _template: str, context: dict[str, Any], _tree: Any) -> None:
    """Wide code and tables can be scrolled by keyboard, and headings of lists of pages say their level."""
    for part in ("body", "furo_navigation_tree"):
        if part in context:
            text = context[part].replace("<pre>", '<pre tabindex="0">')
            text = text.replace('<div class="table-wrapper', '<div tabindex="0" class="table-wrapper')
            context[part] = text.replace(' role="heading"', ' role="heading" aria-level="2"')


def _redirect(app: Any, error: Exception | None) -> None:
    """The folder that was built opens at its first page."""
    if error is None:
        page = '<!doctype html><meta http-equiv="refresh" content="0; url=docs/index.html"><title>fcnet</title>\n'
        (Path(app.outdir) / "index.html").write_text(page + '<a href="docs/index.html">fcnet</a>\n')


def setup(app: Any) -> None:
    """What Sphinx calls first."""
    app.add_lexer("mermaid", TextLexer)
    app.connect("autodoc-process-docstring", _literal_docstring)
    app.connect("html-page-context", _accessible, priority=900)  # after the theme's
    app.connect("build-finished", _redirect)
