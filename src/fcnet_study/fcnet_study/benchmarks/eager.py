"""Control steps in eager PyTorch, float32, one robot: what the suite's runtimes are measured against.

The Fourier Controller Network's has two forms. `PublishedStep` computes what the paper's code computes, operation by
operation: with a batch axis and a time axis of one, a list as ring of inputs, and a spectrum of complex numbers; like
that code it multiplies its weights W by the inverse DFT once, at a reset. `FastestStep` is the quickest eager form that
was found: vectors, real numbers, what can be written in place, and the causal filter h in place of the spectrum, two
operations instead of six. The peers' are made likewise: vectors, and memory written in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm, linear, relu, rms_norm, scaled_dot_product_attention, silu

from fcnet_core.arrays import Single
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies.body_transformer import step as body_transformer
from fcnet_core.policies.fcnet.spectral import inverse_dft_last, kernel, phase_table
from fcnet_core.policies.fcnet.step import fold
from fcnet_core.policies.mlp.step import layers_of
from fcnet_core.policies.retnet import step as retnet
from fcnet_core.policies.retnet.retention import EPSILON, query_scale
from fcnet_core.policies.starformer import step as starformer
from fcnet_core.policies.transformer import step as transformer
from fcnet_core.policy import Policy


class Units:
    """The normalisation of one robot's policy that sees one vector, in tensors."""

    def __init__(self, model: PolicyModel) -> None:
        names = ("observation_mean", "observation_std", "action_mean", "action_scale")
        self._mean, self._std, self._action_mean, self._action_scale = (
            torch.from_numpy(model.scales[name]) for name in names
        )
        self._clip = float(model.card.observation_clip)

    def input(self, observation: Single) -> Tensor:
        """What the network sees of an observation (observation,)."""
        return (torch.from_numpy(observation) - self._mean).div_(self._std).clamp_(-self._clip, self._clip)

    def action(self, output: Tensor) -> Single:
        """The action of the network's output (action,)."""
        action: Single = torch.addcmul(self._action_mean, self._action_scale, output).numpy()
        return action


class PublishedStep:
    """The published recurrent step, float32 with a spectrum in complex64."""

    def __init__(self, model: PolicyModel) -> None:
        self._config, self._units = model.card.config, Units(model)
        self._w = {name: torch.tensor(weight, dtype=torch.float32) for name, weight in model.weights.items()}
        self.reset()

    def reset(self) -> None:
        """Forget every past observation."""
        config = self._config
        phases = phase_table(config.window, config.modes)[:, 0].astype(np.complex64)
        last = torch.from_numpy(inverse_dft_last(config.window, config.modes).astype(np.complex64))
        weights = [torch.view_as_complex(self._w[f"fourier_layers.{i}.csc.weights"]) for i in range(config.layers)]
        self._rotation = torch.from_numpy(phases).reshape(1, -1, 1)
        self._folded = [(weight.permute(2, 0, 1) @ last).permute(1, 0) for weight in weights]
        self._inputs = [[torch.zeros(1, 1, config.hidden) for _ in range(config.window)] for _ in weights]
        self._spectra = [torch.zeros(1, config.modes, config.hidden, dtype=torch.cfloat) for _ in weights]
        self._slot = 0

    @torch.inference_mode()
    def step(self, observation: Single) -> Single:
        """The action (action,) for an observation (observation,)."""
        x = self._linear("fc0", self._units.input(observation)[None, None])
        for layer in range(self._config.layers):
            name = f"fourier_layers.{layer}."
            x = gelu(self._convolve(layer, self._layer_norm(name + "ln1", x))) + x
            inner = gelu(self._linear(name + "ffn.fc1", self._layer_norm(name + "ln2", x)))
            x = self._linear(name + "ffn.fc2", inner) + x
        self._slot = (self._slot + 1) % self._config.window
        return self._units.action(self._linear("fc2", gelu(self._linear("fc1", x)))[0, 0])

    def _convolve(self, layer: int, x: Tensor) -> Tensor:
        oldest = self._inputs[layer][self._slot]
        spectrum = self._rotation * (self._spectra[layer] + (x - oldest))
        self._inputs[layer][self._slot], self._spectra[layer] = x, spectrum
        return torch.einsum("btmd,md->btd", spectrum.unsqueeze(1), self._folded[layer]).real

    def _linear(self, name: str, x: Tensor) -> Tensor:
        return linear(x, self._w[name + ".weight"], self._w[name + ".bias"])

    def _layer_norm(self, name: str, x: Tensor) -> Tensor:
        return layer_norm(x, x.shape[-1:], self._w[name + ".weight"], self._w[name + ".bias"])


class FastestStep:
    """The quickest form in eager PyTorch that was found, float32."""

    def __init__(self, model: PolicyModel) -> None:
        config, weights = model.card.config, fold(model)
        self._window, self._units = config.window, Units(model)
        parts = (weights.encoder_weight, weights.decoder_weight, weights.output_weight)
        self._encoder, self._decoder, self._output = (torch.from_numpy(part) for part in parts)
        biases = (weights.encoder_bias, weights.decoder_bias, weights.output_bias)
        self._encoder_bias, self._decoder_bias, self._output_bias = (torch.from_numpy(bias) for bias in biases)
        filters = kernel(weights.complex_weight, config.window).astype(np.float32)[:, ::-1]  # the oldest input first
        self._layers = [
            tuple(torch.from_numpy(np.ascontiguousarray(part)) for part in (*norm, *ffn_weight, *ffn_bias, filters[i]))
            for i, (norm, ffn_weight, ffn_bias) in enumerate(
                zip(weights.norm, weights.ffn_weight, weights.ffn_bias, strict=True)
            )
        ]
        # Two copies of the ring one behind the other: the last n inputs are always one piece.
        self._inputs = torch.zeros(config.layers, 2 * config.window, config.hidden)
        self.reset()

    def reset(self) -> None:
        """Forget every past observation."""
        self._inputs.zero_()
        self._slot = 0

    @torch.inference_mode()
    def step(self, observation: Single) -> Single:
        """The action (action,) for an observation (observation,)."""
        n, slot, size = self._window, self._slot, self._encoder_bias.shape
        x = torch.addmv(self._encoder_bias, self._encoder, self._units.input(observation))
        for inputs, (scale1, shift1, scale2, shift2, expand, contract, bias1, bias2, h) in zip(
            self._inputs, self._layers, strict=True
        ):
            normed = layer_norm(x, size, scale1, shift1)
            inputs[slot], inputs[slot + n] = normed, normed
            x = gelu((inputs[slot + 1 : slot + 1 + n] * h).sum(0)).add_(x)
            inner = torch.addmv(bias1, expand, layer_norm(x, size, scale2, shift2))
            x = torch.addmv(bias2, contract, gelu(inner)).add_(x)
        self._slot = (slot + 1) % n
        return self._units.action(
            torch.addmv(self._output_bias, self._output, gelu(torch.addmv(self._decoder_bias, self._decoder, x)))
        )


class TransformerStep:
    """The Transformer token by token, with a cache of keys and values."""

    def __init__(self, model: PolicyModel) -> None:
        config, folded = model.card.config, transformer.fold(model)
        self._w: Any = transformer.Weights(*map(torch.from_numpy, folded))  # type: ignore[arg-type]
        self._units, self._heads, self._window = Units(model), config.heads, config.window
        ring = (config.layers, config.heads, config.window, config.hidden // config.heads)
        self._keys, self._values = torch.zeros(ring), torch.zeros(ring)
        self.reset()

    def reset(self) -> None:
        """Forget every past observation."""
        self._count = 0

    @torch.inference_mode()
    def step(self, observation: Single) -> Single:
        """The action (action,) for an observation (observation,)."""
        w, size = self._w, self._w.embed_bias.shape
        x = layer_norm(torch.addmv(w.embed_bias, w.embed_weight, self._units.input(observation)), size, *w.embed_norm)
        slot, filled = self._count % self._window, min(self._count + 1, self._window)
        for layer, norm in enumerate(w.norm):
            normed = layer_norm(x, size, norm[0], norm[1])
            q, k, v = torch.addmv(w.qkv_bias[layer], w.qkv_weight[layer], normed).view(3, self._heads, 1, -1)
            keys, values = self._keys[layer], self._values[layer]
            keys[:, slot : slot + 1], values[:, slot : slot + 1] = k, v
            mixed = scaled_dot_product_attention(q, keys[:, :filled], values[:, :filled])
            x = torch.addmv(w.project_bias[layer], w.project_weight[layer], mixed.view(-1)).add_(x)
            normed = layer_norm(x, size, norm[2], norm[3])
            inner = gelu(torch.addmv(w.expand_bias[layer], w.expand_weight[layer], normed), approximate="tanh")
            x = torch.addmv(w.contract_bias[layer], w.contract_weight[layer], inner).add_(x)
        self._count += 1
        return self._units.action(torch.addmv(w.head_bias, w.head_weight, layer_norm(x, size, *w.final_norm)))


class RetNetStep:
    """The retentive network in its recurrent form."""

    def __init__(self, model: PolicyModel) -> None:
        config, folded = model.card.config, retnet.fold(model)
        self._decays, self._angles = folded.decay, folded.angle
        self._w: Any = retnet.Weights(*map(torch.from_numpy, folded))  # type: ignore[arg-type]
        self._units, self._shape = Units(model), config.state_shape
        self._decay = torch.tensor(folded.decay, dtype=torch.float32)[:, None, None]
        self._state = torch.zeros(config.layers, *config.state_shape)
        self.reset()

    def reset(self) -> None:
        """Forget every past observation."""
        self._state.zero_()
        self._count = 0

    @torch.inference_mode()
    def step(self, observation: Single) -> Single:
        """The action (action,) for an observation (observation,)."""
        w, size = self._w, self._w.final_norm.shape
        heads, key_width, value_width = self._shape
        sizes = (2 * heads * key_width, heads * value_width, heads * value_width)
        turned = self._count * self._angles
        turn = torch.from_numpy(np.exp(1j * turned).astype(np.complex64))
        scale = torch.from_numpy(query_scale(np.array([self._count]), self._decays, key_width).T.astype(np.float32))
        x = torch.addmv(w.encoder_bias, w.encoder_weight, self._units.input(observation))
        for layer, norm in enumerate(w.norm):
            qk, v, gates = torch.mv(w.projection[layer], rms_norm(x, size, norm[0], EPSILON)).split(sizes)
            first, second = qk.view(2, heads, 2, -1).unbind(2)
            turned_pairs = torch.view_as_real(torch.complex(first, second) * turn).transpose(2, 3)
            q, k = turned_pairs.reshape(2, heads, key_width)
            state = self._state[layer].mul_(self._decay)
            state.baddbmm_(k[:, :, None], v.view(heads, 1, -1))
            retained = torch.bmm((q * scale)[:, None], state)
            normed = rms_norm(retained, retained.shape[-1:], eps=EPSILON).view(-1)
            x = torch.addmv(x, w.output[layer], silu(gates).mul_(normed))
            inner, gate = torch.mv(w.ffn_in[layer], rms_norm(x, size, norm[1], EPSILON)).chunk(2)
            x = torch.addmv(x, w.ffn_out[layer], gelu(inner).mul_(gate))
        self._count += 1
        x = rms_norm(x, size, w.final_norm, EPSILON)
        return self._units.action(torch.addmv(w.decoder_bias, w.decoder_weight, x))


class StackedObservations:
    """The last n observations of one robot, normalised, always in one piece: two rings one behind the other."""

    def __init__(self, model: PolicyModel) -> None:
        config = model.card.config
        self._units, self._window = Units(model), config.window
        self._seen = torch.zeros(2 * config.window, config.observation)
        self.reset()

    def reset(self) -> None:
        """Forget every past observation."""
        self._seen.zero_()
        self._slot = 0

    def add(self, observation: Single) -> Tensor:
        """The stacked observations (n * observation,), oldest first, the last of them this one."""
        slot, n = self._slot, self._window
        self._seen[slot::n] = self._units.input(observation)
        self._slot = (slot + 1) % n
        return self._seen[slot + 1 : slot + 1 + n].view(-1)


class BodyTransformerStep:
    """The Body Transformer, the tokens of all nodes at once."""

    def __init__(self, model: PolicyModel) -> None:
        config, folded = model.card.config, body_transformer.fold(model)
        self._w: Any = body_transformer.Weights(*map(torch.from_numpy, folded))  # type: ignore[arg-type]
        self._units, self._stacked = Units(model), StackedObservations(model)
        self._tokens, self._heads = (len(config.graph.nodes), config.hidden), config.heads

    def reset(self) -> None:
        """Forget every past observation."""
        self._stacked.reset()

    @torch.inference_mode()
    def step(self, observation: Single) -> Single:
        """The action (action,) for an observation (observation,)."""
        w, size = self._w, self._tokens[1:]
        x = torch.addmv(w.token_bias, w.token_weight, self._stacked.add(observation)).view(self._tokens)
        for layer, norm in enumerate(w.norm):
            qkv = torch.addmm(w.qkv_bias[layer], x, w.qkv_weight[layer].t())
            q, k, v = qkv.view(len(x), 3, self._heads, -1).permute(1, 2, 0, 3)
            mixed = scaled_dot_product_attention(q, k, v, attn_mask=w.score_bias[layer])
            mixed = mixed.transpose(0, 1).reshape(self._tokens)
            x = torch.addmm(w.project_bias[layer], mixed, w.project_weight[layer].t()).add_(x)
            x = layer_norm(x, size, norm[0], norm[1])
            inner = relu(torch.addmm(w.expand_bias[layer], x, w.expand_weight[layer].t()))
            x = torch.addmm(w.contract_bias[layer], inner, w.contract_weight[layer].t()).add_(x)
            x = layer_norm(x, size, norm[2], norm[3])
        return self._units.action(torch.addmv(w.head_bias, w.head_weight, x.view(-1)))


class StarformerStep:
    """The StARformer with the pooled vectors and pure states of the window kept, oldest first."""

    def __init__(self, model: PolicyModel) -> None:
        self._config, folded = model.card.config, starformer.fold(model)
        blocks = [starformer.Blocks(*map(torch.from_numpy, part)) for part in (folded.step, folded.sequence)]  # type: ignore[arg-type]
        self._w: Any = starformer.Weights(*map(torch.from_numpy, folded[:-2]), *blocks)  # type: ignore[arg-type]
        self._units, window = Units(model), self._config.window
        self._kept = torch.zeros(len(folded.pool_bias) + 1, window, self._config.hidden)
        self._visible = torch.ones(window, window, dtype=torch.bool).tril()
        self.reset()

    def reset(self) -> None:
        """Forget every past observation."""
        self._count = 0

    @torch.inference_mode()
    def step(self, observation: Single) -> Single:
        """The action (action,) for an observation (observation,)."""
        w, config, kept = self._w, self._config, self._kept
        if self._count == config.window:
            kept[:, :-1] = kept[:, 1:].clone()
            self._count -= 1
        self._keep(self._units.input(observation))
        self._count += 1
        n = self._count
        h = kept[-1, :n] + w.state_time[:n]
        for layer in range(config.layers):
            beside = h[:0]
            if layer < len(w.pool_bias):
                beside = kept[layer, :n] + w.pooled_time[:n]
            visible = self._visible[:n, :n]
            if config.connection == "layer_wise":
                visible = torch.cat([visible, visible], dim=1)
            elif len(beside):
                h, beside = h.add_(beside), h[:0]
            rows = slice(n - 1 if layer == config.layers - 1 else 0, n)
            h = self._block(w.sequence, layer, config.heads, h, beside, visible, rows)
        features = layer_norm(h[-1], h.shape[1:], *w.final_norm)
        return self._units.action(torch.addmv(w.head_bias, w.head_weight, features))

    def _keep(self, x: Tensor) -> None:
        """Put what is kept of the newest step behind that of the others."""
        w, config = self._w, self._config
        tokens = torch.addmv(w.token_bias, w.token_weight, x).view(-1, config.token_width)
        if config.reward is not None:
            tokens[-1].tanh_()
        first = config.layers - len(w.pool_bias)  # a stack pools after the last layer alone
        for layer in range(config.layers):
            tokens = self._block(w.step, layer, config.token_heads, tokens, tokens[:0], None, slice(None))
            if (place := layer - first) >= 0:
                normed = layer_norm(tokens, tokens.shape[1:], *w.token_norm[place]) if len(w.token_norm) else tokens
                pooled = torch.addmv(w.pool_bias[place], w.pool_weight[place], normed.view(-1))
                self._kept[place, self._count] = layer_norm(pooled, pooled.shape, *w.pool_norm[place])
        self._kept[-1, self._count] = torch.addmv(w.state_bias, w.state_weight, x)

    def _block(
        self, w: Any, layer: int, heads: int, x: Tensor, beside: Tensor, visible: Tensor | None, rows: slice
    ) -> Tensor:
        """A block on those rows of x (n, w), which attend to `beside` (m, w) and to x."""
        norm, size = w.norm[layer], x.shape[1:]
        seen = layer_norm(torch.cat([beside, x]), size, norm[0], norm[1])
        weights, biases = w.qkv_weight[layer].split(size[0]), w.qkv_bias[layer].split(size[0])
        sources = (seen[len(beside) :][rows], seen, seen)
        parts = [
            torch.addmm(bias, source, weight.t()) for bias, source, weight in zip(biases, sources, weights, strict=True)
        ]
        q, k, v = (part.view(len(part), heads, -1).transpose(0, 1) for part in parts)
        mask = None if visible is None else visible[rows]
        mixed = scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(0, 1).reshape(-1, *size)
        x = torch.addmm(w.project_bias[layer], mixed, w.project_weight[layer].t()).add_(x[rows])
        normed = layer_norm(x, size, norm[2], norm[3])
        inner = gelu(torch.addmm(w.expand_bias[layer], normed, w.expand_weight[layer].t()))
        return torch.addmm(w.contract_bias[layer], inner, w.contract_weight[layer].t()).add_(x)


class PerceptronStep:
    """The perceptron over its stacked window."""

    def __init__(self, model: PolicyModel) -> None:
        self._units, self._stacked = Units(model), StackedObservations(model)
        self._layers: list[tuple[Tensor, Tensor]] = [
            (torch.from_numpy(weight), torch.from_numpy(bias)) for weight, bias in layers_of(model)
        ]

    def reset(self) -> None:
        """Forget every past observation."""
        self._stacked.reset()

    @torch.inference_mode()
    def step(self, observation: Single) -> Single:
        """The action (action,) for an observation (observation,)."""
        x = self._stacked.add(observation)
        for weight, bias in self._layers[:-1]:
            x = gelu(torch.addmv(bias, weight, x))
        weight, bias = self._layers[-1]
        return self._units.action(torch.addmv(bias, weight, x))


# By policy type; the first is the reference of ratios.
EAGER: dict[str, dict[str, Callable[[PolicyModel], Policy]]] = {
    "fcnet": {"published eager": PublishedStep, "fastest eager": FastestStep},
    "transformer": {"eager": TransformerStep},
    "retnet": {"eager": RetNetStep},
    "mlp": {"eager": PerceptronStep},
    "body_transformer": {"eager": BodyTransformerStep},
    "starformer": {"eager": StarformerStep},
}
