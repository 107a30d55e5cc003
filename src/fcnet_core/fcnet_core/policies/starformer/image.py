"""The StARformer's image form in PyTorch: patches as tokens, the pure state from convolutions."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fcnet_core.policies import check_heads
from fcnet_core.policies.starformer import Connection, has_pure_state
from fcnet_core.policies.starformer.network import Encoder, initialise

IMAGE = 84  # pixels a side, for which the convolutions are made


@dataclass(frozen=True)
class ImageSizes:
    """Sizes of the image form; the defaults are the published ones. Raises ValueError where they do not fit.

    discrete: actions are `action` choices, 0, 1, ..., of which the head gives the logits; else vectors within +-1.
    frames: stacked in one image. patch: pixels a side. reward: whether there is a token of the last reward.
    """

    action: int
    discrete: bool
    reward: bool = False
    frames: int = 4
    patch: int = 7
    connection: Connection = "layer_wise"
    layers: int = 6
    hidden: int = 192
    heads: int = 8
    token_width: int = 64
    token_heads: int = 4
    time_table: int = 30

    def __post_init__(self) -> None:
        check_heads(self.heads, self.hidden)
        check_heads(self.token_heads, self.token_width, "token_width")
        if IMAGE % self.patch:
            raise ValueError(f"{IMAGE} pixels cannot be divided into patches of {self.patch}; choose 7, 12 or 14")


class ImageStarformer(nn.Module):
    """Maps images (B, T, frames, 84, 84) in 0..1, with the last action and the last reward (B, T, 1) of every step, to
    logits or actions (B, T, action), causally; T is at most the time table's.

    Last actions are choices (B, T), where there was none the number `action`, or vectors (B, T, action), there zero.
    """

    def __init__(self, sizes: ImageSizes) -> None:
        super().__init__()
        d, patches = sizes.token_width, (IMAGE // sizes.patch) ** 2
        self._discrete, self._patch = sizes.discrete, sizes.patch
        self.action = nn.Embedding(sizes.action + 1, d) if sizes.discrete else nn.Linear(sizes.action, d)
        self.patches = nn.Linear(sizes.patch**2 * sizes.frames, d)
        self.positions = nn.Parameter(torch.zeros(patches, d))
        self.reward = nn.Linear(1, d) if sizes.reward else None
        self.state = convolutions(sizes.frames, sizes.hidden) if has_pure_state(sizes.connection) else None
        self.encoder = Encoder(sizes, 1 + patches + sizes.reward)
        self.head = nn.Linear(sizes.hidden, sizes.action)
        initialise(self)

    def forward(self, image: Tensor, action: Tensor, reward: Tensor | None = None) -> Tensor:
        """Logits or actions of every step; `reward` where the network has a token of it."""
        steps = image.shape[:2]
        state = None if self.state is None else self.state(image.flatten(0, 1)).unflatten(0, steps)
        output: Tensor = self.head(self.encoder(self.encoder.pool(self.tokens(image, action, reward)), state))
        return output if self._discrete else torch.tanh(output)

    def tokens(self, image: Tensor, action: Tensor, reward: Tensor | None) -> Tensor:
        """The tokens (B, T, P, d) of every step: last action, patches row by row, reward."""
        p = self._patch
        patches = image.unflatten(-1, (-1, p)).unflatten(-3, (-1, p))  # (B, T, frames, rows, p, columns, p)
        seen = patches.permute(0, 1, 3, 5, 4, 6, 2).flatten(4).flatten(2, 3)  # (B, T, rows columns, p p frames)
        tokens = [self.action(action).unsqueeze(-2), self.patches(seen) + self.positions]
        if self.reward is not None:
            tokens.append(torch.tanh(self.reward(reward)).unsqueeze(-2))
        return torch.cat(tokens, dim=-2)


def convolutions(frames: int, hidden: int) -> nn.Module:
    """Images (N, frames, 84, 84) to pure states (N, hidden)."""
    return nn.Sequential(
        nn.Conv2d(frames, 32, 8, stride=4),
        nn.ReLU(),
        nn.Conv2d(32, 64, 4, stride=2),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(3136, hidden),
        nn.Tanh(),
    )
