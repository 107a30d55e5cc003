"""The recorded walk in docs/examples: the shipped policy still does what it did there, and the page is of that walk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fcnet_core.cli import main

EXAMPLES = Path(__file__).parents[4] / "docs" / "examples"
WALK = EXAMPLES / "aliengo_walk"
SMALL = 2e6  # bytes


def test_the_shipped_policy_reproduces_every_target_of_the_example(tmp_path):
    report = tmp_path / "report.json"
    assert main(["replay", str(WALK), "--json", str(report), "--fail-above", "action_error_rad.max=1e-5"]) == 0
    error = json.loads(report.read_text())["policies"]["A"]["action_error_rad"]
    assert 0.0 < error["max"] < 1e-5


def test_the_figures_of_the_example_are_what_they_were(tmp_path):
    """aliengo_walk_figures.json holds them as of version 1 of the report, of float32 arithmetic of another machine."""
    assert main(["replay", str(WALK), "--json", str(tmp_path / "report.json")]) == 0
    found = dict(leaves(json.loads((tmp_path / "report.json").read_text())))
    for name, value in leaves(json.loads(Path(__file__).with_name("aliengo_walk_figures.json").read_text())):
        rounding = 1e-6 if "action_error_rad" in name else 1e-9
        assert found[name] == (pytest.approx(value, rel=1e-5, abs=rounding) if type(value) is float else value), name


def leaves(figures, path=""):
    """Every figure with its path."""
    for name, value in figures.items():
        yield from leaves(value, f"{path}/{name}") if isinstance(value, dict) else [(f"{path}/{name}", value)]


def test_the_example_is_small_and_its_page_is_of_it():
    assert sum(file.stat().st_size for file in WALK.iterdir()) < SMALL
    page = (EXAMPLES / "aliengo_walk.html").read_text(encoding="utf-8")
    assert "Policy A reproduces every one of the 307 recorded targets" in page
