"""Attention among few tokens in PyTorch: the nodes of a body, or a short window."""

from __future__ import annotations

from torch import Tensor


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the attention of queries (..., n, c) to keys and values (..., m, c).

    mask (n, m): pairs that attend, or numbers to add to the scores. Written out, because torch's
    scaled_dot_product_attention on CPUs is made for long sequences: with 13 tokens it takes as long in float32, and its
    gradient in bfloat16 takes eight times as long.
    """
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
    if mask is not None:
        scores = scores + mask if mask.is_floating_point() else scores.masked_fill(~mask, -float("inf"))
    return scores.softmax(-1).to(v.dtype) @ v
