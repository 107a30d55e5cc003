"""What Transformers share in PyTorch: the layers of a block, and attention among few tokens."""

from torch import Tensor, nn


class Block(nn.Module):
    """The layers of attention and of a perceptron on tokens (..., width), which a subclass connects."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.expand = nn.Linear(width, inner)
        self.contract = nn.Linear(inner, width)


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
