"""Two ways to run the spectral convolutions of one robot step by step: they give the same numbers."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from fcnet_core import spectral
from fcnet_core.runtime.folded_network import FoldedNetwork

Array = npt.NDArray[np.floating]
Form = Literal["sdft", "fir"]


class SlidingDft:
    """The Sliding DFT of the paper: X_k(t) = u_k (X_k(t-1) + x_t - x_{t-n}), y = Re sum_k v_k X_k(t).

    The spectral state is complex128. In float32 its error grows with time (3e-4 of a spectrum after 1e6 steps), in
    float64 it stays below 1e-10 for a month at 50 Hz.
    """

    def __init__(self, network: FoldedNetwork) -> None:
        shape = network.shape
        self._rotation = spectral.phase_table(shape.window, shape.modes)[:, :1]
        self._weight = network.spectral_weight
        self.state = np.zeros((shape.layers, shape.modes, shape.hidden), dtype=np.complex128)
        self._inputs = np.zeros((shape.layers, shape.window, shape.hidden), dtype=network.encoder_weight.dtype)
        self._slot = 0

    def reset(self) -> None:
        """Forget every input."""
        self.state[:] = 0
        self._inputs[:] = 0
        self._slot = 0

    def mix(self, layer: int, x: Array) -> Array:
        """See StreamingFilter."""
        state, oldest = self.state[layer], self._inputs[layer, self._slot]
        state += x.astype(np.float64) - oldest
        state *= self._rotation
        oldest[:] = x
        return np.einsum("kd,kd->d", self._weight[layer], state).real.astype(x.dtype)

    def advance(self) -> None:
        """See StreamingFilter."""
        self._slot = (self._slot + 1) % self._inputs.shape[1]


class RingFilter:
    """The causal filter y_t = sum_tau h[tau] x_{t - tau} from the last n inputs: an error is gone n steps on."""

    def __init__(self, network: FoldedNetwork) -> None:
        self._kernels = network.kernels[:, ::-1].copy()  # oldest first
        self._inputs = np.zeros_like(self._kernels)
        self._slot = 0

    def reset(self) -> None:
        """Forget every input."""
        self._inputs[:] = 0
        self._slot = 0

    def mix(self, layer: int, x: Array) -> Array:
        """See StreamingFilter."""
        inputs, kernel = self._inputs[layer], self._kernels[layer]
        inputs[self._slot] = x
        old, new = inputs[self._slot + 1 :], inputs[: self._slot + 1]
        split = len(old)
        return np.einsum("td,td->d", old, kernel[:split]) + np.einsum("td,td->d", new, kernel[split:])

    def advance(self) -> None:
        """See StreamingFilter."""
        self._slot = (self._slot + 1) % self._inputs.shape[1]


def step_filter(network: FoldedNetwork, form: Form) -> SlidingDft | RingFilter:
    """The filter called "sdft" or "fir"."""
    return SlidingDft(network) if form == "sdft" else RingFilter(network)
