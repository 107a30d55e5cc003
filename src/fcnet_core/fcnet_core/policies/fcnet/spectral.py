"""The causal spectral convolution (CSC): its mathematics in float64.

Symbols of the paper: window n, modes m, u_k = exp(2 pi j k / n). The spectrum of the window that ends at step t is
X_k(t) = sum_i x_{t-n+1+i} exp(-2 pi j k i / n), advanced by X_k(t) = u_k (X_k(t-1) + x_t - x_{t-n}); the output is
the real part of the inverse DFT of W X at the window's last sample. Since only that sample is used, W acts through
v_k = sum_l W[k, l] e_l alone, and the whole CSC is one causal filter of length n per channel.
"""

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array, Floats

Complex = npt.NDArray[np.complex128]


def phase_table(window: int, modes: int) -> Complex:
    """Return rotations (modes, window): entry [k, tau] is u_k ** (tau + 1), with the angle reduced in integers."""
    angles = np.outer(np.arange(modes), np.arange(1, window + 1)) % window
    return np.exp(2j * np.pi * angles / window)


def inverse_dft_last(window: int, modes: int) -> Complex:
    """Return row e (modes,) of the inverse DFT for a real window's last sample: weights 1/n for k = 0, else 2/n."""
    angle = (np.arange(modes) * (window - 1)) % window
    weight = np.full(modes, 2.0 / window)
    weight[0] = 1.0 / window
    return weight * np.exp(2j * np.pi * angle / window)


def folded_weights(weights: npt.ArrayLike, window: int) -> Complex:
    """Fold spectral weights W (..., m, m, d, 2) and e into v (..., m, d): y = Re sum_k v_k X_k."""
    parts = np.asarray(weights, dtype=np.float64)
    return np.einsum("...kld,l->...kd", parts[..., 0] + 1j * parts[..., 1], inverse_dft_last(window, parts.shape[-3]))


def kernel(folded: Complex, window: int) -> Array:
    """Return the impulse response h (..., window, d) of the CSC with weights v (..., m, d).

    y_t = sum_tau h[tau] x_{t - tau}.
    """
    return np.einsum("...kd,kt->...td", folded, phase_table(window, folded.shape[-2])).real


CORRECTED = 64  # steps of a float32 recurrence between two corrections of its phases
SPANS = 64, 128, 256, 512, 1024  # steps of a sequence that one program filters


def mode_blocks(modes: int) -> tuple[int, int]:
    """Return two powers of two that hold all modes, with few places beyond them: 8, 2 for 10 modes."""
    first = 1 << (modes.bit_length() - 1)
    return first, 1 << max(modes - first - 1, 0).bit_length()


def sliding_phases(window: int, modes: int) -> Floats:
    """Return the phases (14, M) of a Sliding DFT in float32, M = sum(mode_blocks(modes)), zero beyond the modes.

    Real and imaginary parts in turn: u; the correction of CORRECTED turns by u as rounded to float32; u ** span for
    each of SPANS.
    """
    exact = phase_table(window, modes)
    rounded = exact[:, 0].astype(np.complex64).astype(np.complex128)
    rows = [exact[:, 0], (exact[:, 0] / rounded) ** CORRECTED, *(exact[:, (span - 1) % window] for span in SPANS)]
    table = np.zeros((2 * len(rows), sum(mode_blocks(modes))), dtype=np.float32)
    table[0::2, :modes], table[1::2, :modes] = np.real(rows), np.imag(rows)
    return table
