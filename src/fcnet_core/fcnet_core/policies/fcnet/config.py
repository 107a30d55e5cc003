"""The sizes of a Fourier Controller Network, and the mathematics of its causal spectral convolution."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array
from fcnet_core.policies.registry import PolicyConfig


class FCNetConfig(PolicyConfig, frozen=True, forbid_unknown_fields=True):
    """Sizes of a network: the defaults are the legged configuration of the paper (787,852 parameters).

    In the paper's symbols: observation d_s, action d_a, layers L, modes m, hidden d_h, window n.
    Raises ValueError when a size is not positive or when `modes` exceeds (window + 1) // 2: a real window of n samples
    has no more distinct modes, and at even n the mode n / 2 would count twice.
    """

    observation: int = 70
    action: int = 12
    layers: int = 4
    modes: int = 10
    hidden: int = 256
    decoder_hidden: int = 128
    window: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.modes > (self.window + 1) // 2:
            raise ValueError(
                f"{self.modes} modes do not fit a window of {self.window} steps; use at most {(self.window + 1) // 2}"
            )

    @property
    def reset_interval(self) -> int:
        """The published evaluation forgets everything after each window."""
        return self.window

    @property
    def memory_steps(self) -> int:
        """Every layer's window reaches back."""
        return self.layers * (self.window - 1)

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every weight under its published name: encoder fc0, fourier_layers, decoder fc1 and fc2.

        csc.weights is indexed [input mode, output mode, channel, real or imaginary part].
        """
        d = self.hidden
        shapes: dict[str, tuple[int, ...]] = {"fc0.weight": (d, self.observation), "fc0.bias": (d,)}
        for layer in range(self.layers):
            prefix = f"fourier_layers.{layer}."
            shapes[prefix + "csc.weights"] = (self.modes, self.modes, d, 2)
            for linear in ("ffn.fc1", "ffn.fc2"):
                shapes |= {f"{prefix}{linear}.weight": (d, d), f"{prefix}{linear}.bias": (d,)}
            for norm in ("ln1", "ln2"):
                shapes |= {f"{prefix}{norm}.weight": (d,), f"{prefix}{norm}.bias": (d,)}
        shapes |= {"fc1.weight": (self.decoder_hidden, d), "fc1.bias": (self.decoder_hidden,)}
        shapes |= {"fc2.weight": (self.action, self.decoder_hidden), "fc2.bias": (self.action,)}
        return shapes


# The mathematics of the causal spectral convolution (CSC), in float64 and independent of any framework.
#
# Symbols of the paper: window n, modes m, u_k = exp(2 pi j k / n). The spectrum of the window that ends at step t is
# X_k(t) = sum_i x_{t-n+1+i} exp(-2 pi j k i / n), advanced by X_k(t) = u_k (X_k(t-1) + x_t - x_{t-n}); the output is
# the real part of the inverse DFT of W X at the window's last sample. Since only that sample is used, W acts through
# v_k = sum_l W[k, l] e_l alone, and the whole CSC is one causal filter of length n per channel.

Complex = npt.NDArray[np.complex128]


def phase_table(window: int, modes: int) -> Complex:
    """Rotations (modes, window): entry [k, tau] is u_k ** (tau + 1), with the angle reduced in whole numbers."""
    angles = np.outer(np.arange(modes), np.arange(1, window + 1)) % window
    return np.exp(2j * np.pi * angles / window)


def inverse_dft_last(window: int, modes: int) -> Complex:
    """Row e (modes,) of the inverse DFT that yields a real window's last sample: weights 1/n for k = 0, else 2/n."""
    angle = (np.arange(modes) * (window - 1)) % window
    weight = np.full(modes, 2.0 / window)
    weight[0] = 1.0 / window
    return weight * np.exp(2j * np.pi * angle / window)


def folded_weights(weights: npt.ArrayLike, window: int) -> Complex:
    """Fold spectral weights W (modes, modes, channels, 2) and e into v (modes, channels): y = Re sum_k v_k X_k."""
    parts = np.asarray(weights, dtype=np.float64)
    modes = parts.shape[1]
    return np.einsum("kld,l->kd", parts[..., 0] + 1j * parts[..., 1], inverse_dft_last(window, modes))


def kernel(weights: npt.ArrayLike, window: int) -> Array:
    """Impulse response h (window, channels) of the CSC with weights W: y_t = sum_tau h[tau] x_{t - tau}."""
    folded = folded_weights(weights, window)
    return np.einsum("kd,kt->td", folded, phase_table(window, len(folded))).real
