"""One robot's policy compiled with numba: what a robot runs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fcnet_core import spectral
from fcnet_core.guard import finite_observation
from fcnet_core.model_file import PolicyModel
from fcnet_core.runtime.folded_network import FoldedNetwork, fold
from fcnet_core.runtime.numba_step import Memory, Parameters, step
from fcnet_core.runtime.step_filter import Form
from fcnet_core.runtime.window import WindowCounter


class NumbaPolicy:
    """A Policy (see policy.py) that releases the GIL while it steps.

    Making one compiles the step, some seconds the first time on a machine and cached after that.
    """

    def __init__(self, model: PolicyModel, form: Form = "sdft") -> None:
        self.model = model
        network = fold(model)
        self._shape = network.shape
        self._parameters = _parameters(model, network, form)
        self.memory = _memory(network)
        self._window = WindowCounter(model.card)
        self._slot = 0
        self.step(np.zeros(self._shape.observation, dtype=np.float32))
        self.reset()

    def reset(self) -> None:
        """Forget every past observation."""
        self.memory.inputs[:] = 0
        self.memory.spectrum[:] = 0
        self._slot = 0
        self._window.restart()

    def step(self, observation: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """See Policy."""
        checked = finite_observation(observation, (self._shape.observation,))
        if self._window.is_full():
            self.reset()
        self._window.count()
        action = np.empty(self._shape.action, dtype=np.float32)
        step(checked, action, self._slot, self._parameters, self.memory)
        self._slot = (self._slot + 1) % self._shape.window
        return action


def _parameters(model: PolicyModel, network: FoldedNetwork, form: Form) -> Parameters:
    rotation = spectral.phase_table(network.shape.window, network.shape.modes)[:, 0]
    kernels = network.kernels[:, ::-1] if form == "fir" else np.zeros((0, 0, 0), dtype=np.float32)
    return Parameters(
        observation_mean=model.observation_mean,
        observation_std=model.observation_std,
        observation_clip=np.float32(model.card.observation_clip),
        action_mean=model.action_mean,
        action_scale=model.action_scale,
        encoder_weight=network.encoder_weight,
        encoder_bias=network.encoder_bias,
        norm=network.norm,
        ffn_weight=network.ffn_weight,
        ffn_bias=network.ffn_bias,
        decoder_weight=network.decoder_weight,
        decoder_bias=network.decoder_bias,
        output_weight=network.output_weight,
        output_bias=network.output_bias,
        rotation=np.stack([rotation.real, rotation.imag]),
        spectral_weight=np.stack([network.spectral_weight.real, network.spectral_weight.imag], 1).astype(np.float32),
        kernels=np.ascontiguousarray(kernels),
    )


def _memory(network: FoldedNetwork) -> Memory:
    shape = network.shape
    widest = max(shape.observation, shape.hidden, shape.decoder_hidden)
    return Memory(
        inputs=np.zeros((shape.layers, shape.window, shape.hidden), dtype=np.float32),
        spectrum=np.zeros((shape.layers, 2, shape.modes, shape.hidden), dtype=np.float64),
        scratch=np.zeros((4, widest), dtype=np.float32),
    )
