"""The head of a model card, as the hub reads it: YAML with licence, library, tags and, as `model-index`, the results.

It is made from the cells of the table below it, so that both agree. Types of metrics: `falls`, a number of
episodes; `mae_vx`, `mae_vy` [m/s], `mae_yaw_rate` [rad/s], `mae_height` [m], `mae_roll`, `mae_pitch` [rad], mean
absolute errors of averages over a stride; `return`, in % of the expert's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from quadruped_sim.evaluation.results import COLUMNS, MET

ERRORS = {"vx, vy, yaw": ("vx", "vy", "yaw_rate"), "height": ("height",), "roll, pitch": ("roll", "pitch")}
ALL = "all scenarios"


def head(name: str, tags: Sequence[str], rows: Sequence[Sequence[str]], mean_return: float | None) -> str:
    """Return the head with the lines that enclose it. name: the model's; rows: cells in COLUMNS order; mean_return: of
    the expert's, over all scenarios that can be compared.
    """
    facts = {
        "license": "apache-2.0",
        "library_name": "fcnet",
        "pipeline_tag": "robotics",
        "tags": ["robotics", "legged-robot", *tags],
    }
    met = {"type": "met", "value": sum(row[-1] == MET for row in rows), "name": f"targets met of {len(rows)}"}
    results = [(ALL, [met] if mean_return is None else [met, _returned(f"{mean_return:.1%}")])]
    results += [(row[0], list(_metrics(dict(zip(COLUMNS, row, strict=True))))) for row in rows]
    lines = [yaml.safe_dump(facts, sort_keys=False), "model-index:\n", f"- name: {name}\n  results:\n"]
    for scenario, metrics in results:
        data = {"type": "fcnet-evaluate", "name": scenario}
        result = {"task": {"type": "robotics"}, "dataset": data, "metrics": metrics}
        lines.append(f"  - {yaml.safe_dump(result, sort_keys=False, default_flow_style=True, width=10_000)}")
    return f"---\n{''.join(lines)}---\n\n"


def _metrics(cells: dict[str, str]) -> Iterator[dict[str, Any]]:
    falls, episodes = cells["policy falls"].split(" of ")
    yield {"type": "falls", "value": int(falls), "name": f"falls in {episodes} episodes"}
    for column, names in ERRORS.items():
        if cells[column] != "-":
            figures = zip(names, cells[column].split(), strict=True)
            yield from ({"type": f"mae_{name}", "value": float(figure)} for name, figure in figures if figure != "nan")
    if cells["return"] != "-":
        yield _returned(cells["return"])


def _returned(share: str) -> dict[str, Any]:
    return {"type": "return", "value": float(share.rstrip("%")), "name": "return, % of the expert's"}
