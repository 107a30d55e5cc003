"""Causal filters of every channel in PyTorch, y_t = sum_tau h[tau] x_{t - tau} for x (B, T, d) and h (n, d): on a
processor tap by tap in compiled code, for windows up to 256 steps, otherwise by FFT.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import conv1d, pad

DIRECT_WINDOW = 256  # longest window for which filtering tap by tap is faster than by FFT: 4 to 5 times at 64 steps


def causal_filter(x: Tensor, h: Tensor) -> Tensor:
    """Return y (B, T, d) for x (B, T, d) and h (n, d), n <= T, of one type, with gradients for both."""
    if torch.compiler.is_exporting():  # ONNX has neither the compiled code nor fast transforms
        rows = pad(x.transpose(1, 2), (h.shape[0] - 1, 0))
        return conv1d(rows, h.flip(0).T[:, None], groups=h.shape[1]).transpose(1, 2)
    if h.shape[0] <= DIRECT_WINDOW and x.device.type == "cpu" and not torch.compiler.is_compiling():
        from fcnet_core.policies.direct_filter import DirectFilter  # a GPU needs no numba

        y: Tensor = DirectFilter.apply(x, h)
        return y
    steps = x.shape[1]
    length = fast_transform_length(steps + h.shape[0] - 1)  # linear: long enough for x and h together
    spectrum = torch.fft.rfft(x.transpose(1, 2), n=length) * torch.fft.rfft(h.T, n=length)  # (B, d, modes)
    return torch.fft.irfft(spectrum, n=length)[..., :steps].transpose(1, 2)


def fast_transform_length(least: int) -> int:
    """The smallest even product of the factors 2, 3 and 5 that is at least `least`: real FFTs are fast there."""
    odd = [fives * threes for fives in (1, 5, 25) for threes in (1, 3, 9, 27)]
    return min(factor * 2 ** max(1, math.ceil(math.log2(least / factor))) for factor in odd)
