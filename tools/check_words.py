"""Finds words in documentation, docstrings, comments and messages that CONTRIBUTING.md asks to avoid.

python tools/check_words.py        # prints file, line, word and alternatives; exit code 1 if there is one
"""

import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ALTERNATIVES = {
    r"judge[sd]?|judging": "evaluate, check, validate",
    r"news|anew|begun": "events; again, from the start; started",
    r"tells?|told|hears?|heard": "report, show, print; receive",
    r"obeys?|obeyed|farewell|greeting": "follow; end; start",
    r"moment(?! of| estimate)s?": "time, now, instant",
    r"wanted": "requested, commanded, target",
    r"beside": "next to, compared with, in addition to, while ... runs",
    r"none that|(?:of )?those that|that which": "repeat the noun",
    r"likewise|seldom|hardly|meanwhile|nobody": "also; rarely; in the meantime; no one",
    r"(?:in|with) (?:a|one) sentence|without a word": "an error message; silently",
}
WORDS = {re.compile(rf"\b(?:{words})\b", re.IGNORECASE): instead for words, instead in ALTERNATIVES.items()}
IN_PYTHON = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yield number and text of the lines of prose in a file: all of Markdown, strings and comments of Python."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from enumerate(text.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in IN_PYTHON and " " in token.string.strip():  # one word is a name or a key
            yield from enumerate(token.string.splitlines(), token.start[0])


def main() -> int:
    """Print every hit in the tracked files; 1 if there is one."""
    listed = subprocess.run(["git", "ls-files", "*.md", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [ROOT / name for name in listed.stdout.split() if not re.search(r"(^|/)test/|check_words\.py$", name)]
    hits = [
        f"{path.relative_to(ROOT)}:{number}: {found.group()!r}; instead: {instead}"
        for path in paths
        for number, line in prose(path)
        for pattern, instead in WORDS.items()
        for found in pattern.finditer(line)
    ]
    print("\n".join(hits), end="\n" if hits else "")
    return 1 if hits else 0


if __name__ == "__main__":
    sys.exit(main())
