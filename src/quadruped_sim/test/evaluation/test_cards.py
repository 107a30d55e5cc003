"""Model cards: the head is what the hub reads, and its figures are those of the card's own table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from huggingface_hub import ModelCard

from fcnet_core.model_file import load_model
from fcnet_core.robot import load_robot
from quadruped_sim.evaluation.cards import ALL, head
from quadruped_sim.evaluation.results import COLUMNS
from quadruped_sim.evaluation.scenarios import scenarios

MODELS = Path(__file__).parents[4] / "models"
FIELDS = {"vx, vy, yaw": ("vx", "vy", "yaw_rate"), "height": ("height",), "roll, pitch": ("roll", "pitch")}
ROW = "turn", "1 of 30", "2 of 30", "< 5%", "1 of 15", "0.033 0.027 nan", "0.1 0.1 0.1", "0.002", "-", "99.1%", "met"


def table(text: str) -> list[list[str]]:
    """The rows of the first table of scenarios."""
    header = f"| {' | '.join(COLUMNS)} |\n"
    lines = text[text.index(header) :].partition("\n\n")[0].splitlines()
    return [line.strip("| ").split(" | ") for line in lines[2:]]


def figures(content: str) -> dict[str, dict[str, float]]:
    """scenario -> type of the metric -> value, as the hub's own library reads them."""
    found: dict[str, dict[str, float]] = {}
    for result in ModelCard(content).data.eval_results:
        found.setdefault(result.dataset_name, {})[result.metric_type] = result.metric_value
    return found


@pytest.mark.parametrize("name", ["aliengo", "a1"])
def test_a_cards_head_is_the_one_that_is_written_of_its_table_and_has_its_figures(name) -> None:
    text = (MODELS / f"{name}.md").read_text()
    rows, found = table(text), figures(text)
    assert [row[0] for row in rows] == list(scenarios(load_robot(name))) == [entry for entry in found if entry != ALL]
    for row in rows:
        cells, metrics = dict(zip(COLUMNS, row, strict=True)), found[row[0]]
        assert metrics["falls"] == int(cells["policy falls"].split()[0])
        for column, fields in FIELDS.items():
            errors = [f"{metrics[f'mae_{field}']:.3f}" for field in fields if f"mae_{field}" in metrics]
            assert (" ".join(errors) or "-") == cells[column]
        assert f"{metrics['return']}%" == cells["return"]
    met, total, share = re.findall(r"(\d+) of (\d+) scenarios meet .* ([\d.]+)% of the expert's", text)[0]
    assert (len(rows), found[ALL]) == (int(total), {"met": int(met), "return": float(share)})
    card = load_model(name).card
    assert text.startswith(head(name, [card.robot, card.policy_type], rows, float(share) / 100))


def test_what_was_not_measured_is_left_out() -> None:
    data = yaml.safe_load(head("best", ["a1", "mlp"], [list(ROW)], None).strip("-\n"))
    assert (data["license"], data["pipeline_tag"], data["tags"][-2:]) == ("apache-2.0", "robotics", ["a1", "mlp"])
    overall, turn = data["model-index"][0]["results"]
    assert [metric["type"] for metric in overall["metrics"]] == ["met"]
    values = {metric["type"]: metric["value"] for metric in turn["metrics"]}
    assert values == {"falls": 2, "mae_vx": 0.033, "mae_vy": 0.027, "mae_height": 0.002, "return": 99.1}
    alone = [*ROW[:9], "-", "met"]
    assert "return" not in head("best", [], [alone], None)
