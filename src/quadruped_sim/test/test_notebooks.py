"""The notebooks in docs/ run from their first cell to their last, and the robot in them does not fall."""

import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[3] / "docs" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_nobody_falls(path: Path) -> None:
    # Its cells are Python and nothing else, so that no kernel is needed to run them.
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    names: dict[str, object] = {}
    for cell in cells:
        exec("".join(cell["source"]), names)
    assert names["fell"] is False
