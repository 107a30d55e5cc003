"""A changed policy is compared with the one it was made of in the same episodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fcnet_core.model_file import load_model, shipped_model
from quadruped_sim.evaluation import comparison
from quadruped_sim.evaluation.comparison import shortcomings, sign_test


@pytest.mark.parametrize(("more", "fewer", "chance"), [(0, 0, 1.0), (1, 0, 0.5), (5, 0, 1 / 32), (3, 3, 42 / 64)])
def test_a_few_more_falls_come_about_by_chance(more, fewer, chance) -> None:
    assert sign_test(more, fewer) == pytest.approx(chance)


def test_the_same_policy_has_no_shortcomings_and_one_that_collapses_has(monkeypatch) -> None:
    monkeypatch.setattr(comparison, "SECONDS", 7.0)  # one scenario alone
    model = load_model(shipped_model("a1"))
    assert shortcomings(model, model, 24) == []
    limp = replace(model, scales=model.scales | {"action_mean": model.scales["action_mean"] * 0.3})
    falls, returned = shortcomings(model, limp, 24)
    assert "episodes in which it did not" in falls
    assert "mean return" in returned
