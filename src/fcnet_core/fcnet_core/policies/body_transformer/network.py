"""The Body Transformer in PyTorch."""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, relu

from fcnet_core.policies.attention import Block, attention
from fcnet_core.policies.body_transformer import BodyTransformerConfig
from fcnet_core.policies.network import StackedNetwork


class BodyTransformer(StackedNetwork):
    """The published critic is this network with one joint per node: a value is the mean of its outputs. Weights are
    initialised as in torch's layers.
    """

    _attended: Tensor
    _paths: Tensor
    _action_nodes: Tensor

    def __init__(self, config: BodyTransformerConfig) -> None:
        super().__init__(config.window, config.observation)
        self.tokenizer = Tokenizer(config)
        shape = len(config.graph.nodes), config.hidden
        self.positions = nn.Parameter(0.02 * torch.randn(shape)) if config.positions else None
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.layers))
        self.detokenizer = nn.Linear(config.hidden, config.action)
        self._masked = [config.is_masked(layer) for layer in range(config.layers)]
        self.register_buffer("_attended", torch.from_numpy(config.attended), persistent=False)
        self.register_buffer("_paths", torch.from_numpy(config.graph.paths), persistent=False)
        self.register_buffer("_action_nodes", torch.from_numpy(config.graph.action_nodes), persistent=False)
        self.path_bias = nn.Parameter(torch.randn(int(config.graph.paths.max()) + 1)) if config.mask == "soft" else None

    def act(self, stacked: Tensor) -> Tensor:
        x = self.tokenizer(stacked)  # (N, n, d)
        if self.positions is not None:
            x = x + self.positions
        for index, layer in enumerate(self.layers):
            x = layer(x, self.mask(index))
        moved = x[:, self._action_nodes]  # (N, action, d)
        output: Tensor = (moved * self.detokenizer.weight).sum(-1) + self.detokenizer.bias
        return output

    def mask(self, layer: int) -> Tensor | None:
        """Return the pairs (n, n) that attend in a layer, numbers to add to their scores, or None: all attend."""
        if self.path_bias is not None:
            return self.path_bias[self._paths]
        return self._attended if self._masked[layer] else None


class Tokenizer(nn.Module):
    """The linear layers of all nodes as one block matrix: stacked observations (N, window * observation) to tokens
    (N, n, d).
    """

    _entries: Tensor
    _nodes: Tensor

    def __init__(self, config: BodyTransformerConfig) -> None:
        super().__init__()
        entries, nodes = config.graph.observation_entries
        self._window, self._sizes = config.window, (config.observation, len(config.graph.nodes))
        self.register_buffer("_entries", torch.from_numpy(entries), persistent=False)
        self.register_buffer("_nodes", torch.from_numpy(nodes), persistent=False)
        self.weight = nn.Parameter(torch.empty(config.hidden, config.window * len(entries)))
        self.bias = nn.Parameter(torch.empty(len(config.graph.nodes), config.hidden))
        inputs = config.window * torch.bincount(self._nodes, minlength=len(self.bias)).clamp(min=1)
        bounds = inputs.rsqrt()  # of each node as a layer of its own
        self.weight.data = (2 * torch.rand(self.weight.shape) - 1) * bounds[self._nodes].repeat(config.window)
        self.bias.data = (2 * torch.rand(self.bias.shape) - 1) * bounds[:, None]

    def forward(self, stacked: Tensor) -> Tensor:
        d, (size, nodes), window = self.weight.shape[0], self._sizes, self._window
        block = self.weight.new_zeros(window, size, nodes, d)
        block[:, self._entries, self._nodes] = self.weight.t().view(window, -1, d)
        return linear(stacked, block.view(window * size, nodes * d).t(), self.bias.flatten()).unflatten(-1, (nodes, d))


class EncoderLayer(Block):
    """x = LN(x + Attention(x)), then x = LN(x + Perceptron(x)), on (N, n, d)."""

    def __init__(self, config: BodyTransformerConfig) -> None:
        super().__init__(config.hidden, config.heads, config.ffn_width)
        nn.init.xavier_uniform_(self.qkv.weight)
        nn.init.zeros_(self.qkv.bias)
        nn.init.zeros_(self.project.bias)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Return the layer's output. mask (n, n): pairs that attend, or numbers to add to the scores."""
        qkv = self.qkv(x).unflatten(-1, (3, self.heads, -1))  # (N, n, 3, H, d / H)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = attention(q, k, v, mask).transpose(1, 2).flatten(2)
        x = self.norm1(x + self.project(mixed))
        output: Tensor = self.norm2(x + self.contract(relu(self.expand(x))))
        return output
