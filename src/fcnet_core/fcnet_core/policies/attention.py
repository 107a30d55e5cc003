"""Attention among few tokens in PyTorch: those of a body, or of a short window."""

from __future__ import annotations

from torch import Tensor


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """What queries (..., n, c) find among keys and values (..., m, c); mask (n, m): where attended, or what is added.

    Written out, because torch's scaled_dot_product_attention on processors is made for long sequences: of 13 tokens it
    takes as long in float32, and its gradient in bfloat16 eight times as long.
    """
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
    if mask is not None:
        scores = scores + mask if mask.is_floating_point() else scores.masked_fill(~mask, -float("inf"))
    return scores.softmax(-1).to(v.dtype) @ v
