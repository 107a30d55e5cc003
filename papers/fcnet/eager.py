"""Control steps in eager PyTorch, float32, one robot, in the fastest forms that we found: FCNet and peers, Figure 6.

They use vectors, and write their memory in place. Normalisation is in NumPy.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.functional import gelu, layer_norm, rms_norm, scaled_dot_product_attention, silu

from fcnet_core.arrays import Array, Floats, Single
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies.fcnet import numba_step as fcnet
from fcnet_core.policies.fcnet.spectral import kernel
from fcnet_core.policies.retnet.network import EPSILON, angles, decays
from fcnet_core.policies.transformer import numba_step as transformer


class RetNetWeights(NamedTuple):
    """RetNet's weights, stacked by layer; linear weights are (outputs, inputs).

    Rows of queries and keys are permuted within each head: the first entries of the pairs that are rotated together,
    then the second ones. Products of queries and keys do not change by that.
    """

    encoder_weight: Floats  # (d, observation)
    encoder_bias: Floats  # (d,)
    norm: Floats  # (L, 2, d): before the retention, before the feed-forward
    projection: Floats  # (L, 2 d + 2 D, d): queries, keys, values, gates
    output: Floats  # (L, d, D)
    ffn_in: Floats  # (L, 2 F, d): what GELU takes, what that is multiplied by
    ffn_out: Floats  # (L, d, F)
    final_norm: Floats  # (d,)
    decoder_weight: Floats  # (action, d)
    decoder_bias: Floats  # (action,)
    decay: Array  # (H,)
    angle: Array  # (d_k / 2,)


def fold_retnet(model: PolicyModel) -> RetNetWeights:
    """Stack the weights of a model."""
    config = model.card.config
    weights = {name: weight.astype(np.float32, copy=False) for name, weight in model.weights.items()}
    heads, key_width, _ = config.state_shape
    halves = np.arange(2 * config.hidden).reshape(2 * heads, key_width // 2, 2).transpose(0, 2, 1).ravel()

    def stacked(*names: str) -> Floats:
        layers = [f"decoder.layers.{layer}." for layer in range(config.layers)]
        return np.stack([np.concatenate([weights[f"{layer}{name}.weight"] for name in names]) for layer in layers])

    projection = stacked(*(f"retention.{name}_proj" for name in "qkvg"))
    projection[:, : len(halves)] = projection[:, halves]
    return RetNetWeights(
        encoder_weight=weights["embed_state.weight"],
        encoder_bias=weights["embed_state.bias"],
        norm=stacked("retention_layer_norm", "final_layer_norm").reshape(config.layers, 2, config.hidden),
        projection=projection,
        output=stacked("retention.out_proj"),
        ffn_in=stacked("ffn.fc1", "ffn.gate"),
        ffn_out=stacked("ffn.fc2"),
        final_norm=weights["decoder.layer_norm.weight"],
        decoder_weight=weights["predict_tgt.weight"],
        decoder_bias=weights["predict_tgt.bias"],
        decay=decays(heads).numpy(),
        angle=angles(key_width).numpy(),
    )


class FilterStep:
    """FCNet by the causal filter h, two operations a layer, instead of the published spectrum, which takes six."""

    def __init__(self, model: PolicyModel) -> None:
        config, weights = model.card.config, fcnet.fold(model)
        self._window, self._normalisation = config.window, model.normalisation
        biases = (weights.encoder_bias, weights.decoder_bias, weights.output_bias)
        matrices = (weights.encoder_weight, weights.decoder_weight, weights.output_weight)
        self._encoder, self._decoder, self._output = zip(
            map(torch.from_numpy, biases), map(torch.from_numpy, matrices), strict=True
        )
        folded = weights.spectral_weight[:, 0] + 1j * weights.spectral_weight[:, 1]
        filters = kernel(folded, config.window).astype(np.float32)[:, ::-1]  # the oldest input first
        self._layers = [
            tuple(torch.from_numpy(np.ascontiguousarray(part)) for part in (*norm, *ffn_weight, *ffn_bias, filters[i]))
            for i, (norm, ffn_weight, ffn_bias) in enumerate(
                zip(weights.norm, weights.ffn_weight, weights.ffn_bias, strict=True)
            )
        ]
        # Two copies of the ring, one after the other: the last n inputs are always contiguous.
        self._inputs = torch.zeros(config.layers, 2 * config.window, config.hidden)
        self.reset()

    def reset(self) -> None:
        """Forget every past observation."""
        self._inputs.zero_()
        self._slot = 0

    @torch.inference_mode()
    def step(self, observation: Single) -> Single:
        """Return the action (action,) for an observation (observation,)."""
        n, slot, size = self._window, self._slot, self._inputs.shape[2:]
        x = torch.addmv(*self._encoder, torch.from_numpy(self._normalisation.input(observation)))
        for inputs, (scale1, shift1, scale2, shift2, expand, contract, bias1, bias2, h) in zip(
            self._inputs, self._layers, strict=True
        ):
            normed = layer_norm(x, size, scale1, shift1)
            inputs[slot], inputs[slot + n] = normed, normed
            x = gelu((inputs[slot + 1 : slot + 1 + n] * h).sum(0)).add_(x)
            inner = torch.addmv(bias1, expand, layer_norm(x, size, scale2, shift2))
            x = torch.addmv(bias2, contract, gelu(inner)).add_(x)
        self._slot = (slot + 1) % n
        output = torch.addmv(*self._output, gelu(torch.addmv(*self._decoder, x)))
        return self._normalisation.action(output.numpy())


class TransformerStep:
    """The Transformer token by token, with a cache of keys and values."""

    def __init__(self, model: PolicyModel) -> None:
        config, folded = model.card.config, transformer.fold(model)
        self._w: Any = transformer.Weights(*map(torch.from_numpy, folded))  # type: ignore[arg-type]
        self._heads, self._window, self._normalisation = config.heads, config.window, model.normalisation
        ring = (config.layers, config.heads, config.window, config.hidden // config.heads)
        self._keys, self._values = torch.zeros(ring), torch.zeros(ring)
        self.reset()

    def reset(self) -> None:
        """Forget every past observation."""
        self._count = 0

    @torch.inference_mode()
    def step(self, observation: Single) -> Single:
        """Return the action (action,) for an observation (observation,)."""
        w, size = self._w, self._w.embed_bias.shape
        seen = torch.from_numpy(self._normalisation.input(observation))
        x = layer_norm(torch.addmv(w.embed_bias, w.embed_weight, seen), size, *w.embed_norm)
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
        output = torch.addmv(w.head_bias, w.head_weight, layer_norm(x, size, *w.final_norm))
        return self._normalisation.action(output.numpy())


class RetNetStep:
    """The retentive network in its recurrent form."""

    def __init__(self, model: PolicyModel) -> None:
        config, folded = model.card.config, fold_retnet(model)
        self._decays, self._angles = folded.decay, folded.angle
        self._w: Any = RetNetWeights(*map(torch.from_numpy, folded))  # type: ignore[arg-type]
        self._normalisation, self._shape = model.normalisation, config.state_shape
        self._decay = torch.tensor(folded.decay, dtype=torch.float32)[:, None, None]
        self._state = torch.zeros(config.layers, *config.state_shape)
        self.reset()

    def reset(self) -> None:
        """Forget every past observation."""
        self._state.zero_()
        self._count = 0

    @torch.inference_mode()
    def step(self, observation: Single) -> Single:
        """Return the action (action,) for an observation (observation,)."""
        w, size = self._w, self._w.final_norm.shape
        heads, key_width, value_width = self._shape
        sizes = (2 * heads * key_width, heads * value_width, heads * value_width)
        turned = self._count * self._angles
        turn = torch.from_numpy(np.exp(1j * turned).astype(np.complex64))
        number = key_width * (1 - self._decays ** (self._count + 1)) / (1 - self._decays)
        scale = torch.from_numpy((number**-0.5).astype(np.float32))[:, None]
        x = torch.addmv(w.encoder_bias, w.encoder_weight, torch.from_numpy(self._normalisation.input(observation)))
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
        return self._normalisation.action(torch.addmv(w.decoder_bias, w.decoder_weight, x).numpy())
