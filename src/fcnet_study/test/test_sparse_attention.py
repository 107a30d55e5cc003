"""Attention that skips what a mask excludes computes the same, and a report says from where on it pays."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from fcnet_core.cli import main
from fcnet_core.errors import StudyError
from fcnet_core.policies.body_transformer import BodyTransformerConfig
from fcnet_core.policies.body_transformer.graph import leg_graph
from fcnet_study.benchmarks.sparse_attention import (
    FORMS,
    break_even,
    check_agreement,
    excluded_share,
    measure,
    random_body,
    random_head,
    random_mask,
)
from fcnet_study.benchmarks.steps import Pace

RNG = np.random.default_rng(0)
MASKS = {
    "robot": leg_graph().mask,
    "body of 40": random_body(RNG, 40),
    "random": random_mask(RNG, 17, 0.7),
    "one way": np.tril(np.ones((9, 9), dtype=bool)),
    "itself alone": np.eye(5, dtype=bool),
    "all": np.ones((16, 16), dtype=bool),
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(("size", "error"), [(1.0, 1e-6), (100.0, 1e-3)])  # exp of scores of hundreds overflows
def test_every_form_is_masked_attention(form, size, error, mask) -> None:
    head = random_head(np.random.default_rng(1), mask, channels=32)
    head.q[...] *= size
    attention = form(head)
    q, k, v = (torch.from_numpy(part).double() for part in (head.q, head.k, head.v))
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=torch.from_numpy(mask))
    for _ in range(2):
        np.testing.assert_allclose(attention(2), expected, atol=error, rtol=0)


@pytest.mark.parametrize(("nodes", "sparsity"), [(13, 0.0), (13, 0.4), (16, 0.908), (128, 0.908)])
def test_a_random_mask_excludes_the_wanted_share_and_keeps_the_diagonal(nodes, sparsity) -> None:
    mask = random_mask(np.random.default_rng(2), nodes, sparsity)
    assert mask.diagonal().all()
    assert 1 - mask.mean() == pytest.approx(sparsity, abs=0.5 / nodes**2)


def test_a_body_is_a_tree() -> None:
    mask = random_body(np.random.default_rng(3), 20)
    assert mask.sum() == 20 + 2 * 19 and (mask == mask.T).all()
    assert (np.linalg.matrix_power(mask.astype(float), 19) > 0).all()


@pytest.mark.parametrize(
    ("values", "ratios", "expected"),
    [
        ((16, 32, 64), (0.5, 2.0, 3.0), 24.0),
        ((16, 32, 64), (2.0, 0.5, 2.0), 48.0),  # what pays at a smaller value alone does not count
        ((8, 16, 32, 64), (0.5, 2.0, 0.5, 2.0), 48.0),
        ((16, 32, 64), (1.5, 2.0, 3.0), 16.0),
        ((16, 32, 64), (0.5, 2.0, 0.9), None),
        ((0.0, 0.8), (0.25, 4.0), 0.4),
        ((0.0, 0.5, 0.8), (0.5, 1.0, 2.0), 0.5),
    ],
)
def test_the_break_even_is_where_the_last_loss_ends(values, ratios, expected) -> None:
    assert break_even(values, ratios) == (None if expected is None else pytest.approx(expected))


def test_the_pairs_that_the_robots_mask_excludes_are_few_of_a_layers_operations() -> None:
    linear, attention = 13 * 2 * (4 * 64 * 64 + 2 * 64 * 128), 4 * 13 * 13 * 64
    expected = attention * (132 / 169) / (linear + attention)
    assert excluded_share(BodyTransformerConfig(mask="hard")) == pytest.approx(expected)


def test_forms_that_disagree_are_not_timed() -> None:
    same, other = np.zeros((2, 3), np.float32), np.array([[0, 0, 0], [0, np.nan, 0]], np.float32)
    with pytest.raises(StudyError, match=r"skipping, numba differs from masked dense, NumPy by nan"):
        check_agreement({"masked dense, NumPy": same, "skipping, numba": other})


def test_sizes_and_sparsities_are_measured_with_their_break_even(tmp_path) -> None:
    pace = Pace(rounds=2, steps=1)
    times = measure(pace, sizes=(4, 8), sizes_of_sparsities=(5,), sparsities=(0.0, 0.5))
    report = times.report(pace)
    assert list(report.rows) == [
        "the robots' policy, 13 nodes of 32 channels",
        *(f"bodies: {entry}" for entry in ("4 nodes", "8 nodes", "break-even [nodes]")),
        *(f"random, 90.8% excluded: {entry}" for entry in ("4 nodes", "8 nodes", "break-even [nodes]")),
        *(f"5 nodes, random: {entry}" for entry in ("0% excluded", "50% excluded", "break-even")),
    ]
    assert all(len(cells) == len(report.columns) for cells in report.rows.values())
    assert "a compiled step of the robots' policy takes" in report.how
    times.draw(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_the_verb_writes_what_it_prints(tmp_path, capsys) -> None:
    table = tmp_path / "attention.json"
    assert main(["bench", "attention", "--rounds", "1", "--steps", "1", "--json", str(table)]) == 0
    assert "13 nodes, random: break-even" in capsys.readouterr().out
    assert "bodies: 128 nodes" in json.loads(table.read_text())["rows"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["attention", "model.safetensors"], "makes its own policies"),
        (["attention", "--bf16"], "--bf16 is not for `fcnet bench attention`"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_a_sentence(arguments, sentence, capsys) -> None:
    assert main(["bench", *arguments]) == 2
    assert sentence in capsys.readouterr().err
