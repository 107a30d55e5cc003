"""Evaluate shipped policies (all, or those named) and write the heads and tables of their cards in models/ again.

The number of episodes, and whether the teacher is compared, are as in the card. Results are kept scenario by scenario
in models/results/, which can be committed: an interrupted run (`timeout -s INT 1h python tools/model_cards.py`) resumes
there. Delete a file to measure it again. Sentences in a card that state figures must be corrected by hand.
"""

import re
import sys

from fcnet_core.cli import main
from fcnet_core.model_file import load_model, shipped_model

MODELS = shipped_model("aliengo").parent
RESULTS = MODELS / "results"
TABLES = "\n| scenario |"  # begins the first of the tables, with which a card ends


def spliced(card: str, made: str) -> str:
    """Return a card with the head and tables of the Markdown that `fcnet evaluate` made."""
    (_, old_head, rest), (_, new_head, tables) = (text.split("---\n", 2) for text in (card, made))
    assert old_head and TABLES in rest
    return f"---\n{new_head}---\n{rest[: rest.index(TABLES)]}{tables[tables.index(TABLES) :]}"


def evaluate(*arguments: object) -> None:
    """Run `fcnet evaluate`; missed limits are no error."""
    if code := main(["evaluate", *map(str, arguments), "--no-fail"]):
        sys.exit(code)


def renew(name: str) -> None:
    """Evaluate a policy, after its teacher if the card compares them, and write its card."""
    model, path, made = MODELS / f"{name}.safetensors", MODELS / f"{name}.md", RESULTS / f"{name}.md"
    card, robot = path.read_text(encoding="utf-8"), load_model(model).card.interface.name
    episodes = max(map(int, re.findall(r"of (\d+) \| <", card)))
    compared: list[object] = []
    if "% of the expert" in card:
        teacher = RESULTS / f"{robot}-teacher-{episodes}.json"
        evaluate("--teacher", MODELS / f"teachers/{robot}.safetensors", "--episodes", episodes, "--json", teacher)
        compared = ["--baseline", teacher]
    evaluate(model, "--episodes", episodes, *compared, "--json", made.with_suffix(".json"), "--markdown", made)
    path.write_text(spliced(card, made.read_text(encoding="utf-8")), encoding="utf-8")
    made.unlink()


if __name__ == "__main__":
    RESULTS.mkdir(parents=True, exist_ok=True)
    for chosen in sys.argv[1:] or sorted(path.stem for path in MODELS.glob("*.safetensors")):
        renew(chosen)
