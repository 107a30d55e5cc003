"""Multi-scale retention: its constants in float64, and its recurrent and chunked forms in NumPy.

A head with decay gamma maps queries q_t and keys k_t of d_k entries, both rotated by angles proportional to t, so that
their products depend on differences of t alone, and values v_t to

    o_t = sum_{i <= t} gamma^(t - i) (q_t . k_i) v_i / sqrt(d_k n_t),    n_t = gamma n_{t-1} + 1

The parallel form computes this sum by two matrix products over a whole sequence. In the recurrent form the memory is
the state S_t = gamma S_{t-1} + k_t v_t^T (d_k, d_v), and o_t = q_t S_t / sqrt(d_k n_t). The chunked form computes the
steps of a chunk in parallel and has a state for earlier steps. The published code scales each form in another way; the
normalisation of o_t per head removes this scale except for its epsilon. Here all three forms have the scale of the
published recurrent form, so they are equal up to rounding.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array, Floats, Mask

EPSILON = 1e-6  # of the RMS norms, as published


def decays(heads: int) -> Array:
    """Return the decay gamma of each head (H,), exact also in float32."""
    gamma: Array = 1 - np.exp2(-5.0 - np.arange(heads))
    return gamma


def angles(key_width: int) -> Array:
    """Return the rotation of each pair of key entries per step (d_k / 2,) [rad], from 1 to 1 / 10,000."""
    return np.logspace(0, -4, key_width // 2)


def query_scale(steps: Array, decay: Array, key_width: int) -> Array:
    """Return the factor of queries at steps 0, 1, ... (...): 1 / sqrt(d_k n_t) (..., H)."""
    count = (1 - decay ** (steps[..., None] + 1)) / (1 - decay)
    return 1 / np.sqrt(key_width * count)


def rotate(x: Floats, cosine: Floats, sine: Floats) -> Floats:
    """Rotate x (rows, heads, d_k), first entries of all pairs before the second ones, by angles (rows, d_k / 2)."""
    cosine, sine = cosine[:, None], sine[:, None]
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)


class ChunkDecays(NamedTuple):
    """Powers of gamma for chunks of b steps.

    within: weight of step s at step r; before: weight at step r of the state before the chunk; after: weight of step s
    in the state after the chunk.
    """

    within: Floats  # (H, b, b): gamma^(r - s), 0 where s > r
    before: Floats  # (H, b, 1): gamma^(r + 1)
    after: Floats  # (H, b, 1): gamma^(b - 1 - s)

    @classmethod
    def of(cls, decay: Array, steps: int, dtype: npt.DTypeLike = np.float64) -> ChunkDecays:
        """Return the powers for chunks of `steps` steps."""
        powers = decay[:, None] ** np.arange(steps + 1)
        lag = np.abs(np.subtract.outer(np.arange(steps), np.arange(steps)))
        tables = np.tril(powers[:, lag]), powers[:, 1:, None], powers[:, steps - 1 :: -1, None]
        return cls(*(np.ascontiguousarray(table, dtype=dtype) for table in tables))


class Retained(Protocol):
    """The memory of every layer, for rows that are robots or consecutive steps of a sequence."""

    def count(self, rows: int) -> Array:
        """Return the numbers (rows,) of the next steps, 0 for the first after a reset."""

    def retain(self, layer: int, q: Floats, k: Floats, v: Floats) -> Floats:
        """Add rotated keys (rows, H, d_k) and values (rows, H, d_v); return o (rows, H, d_v) for rotated, scaled
        queries (rows, H, d_k).
        """


class RecurrentState:
    """The recurrent form for `batch` robots. shape: (H, d_k, d_v)."""

    def __init__(self, layers: int, batch: int, shape: tuple[int, int, int], dtype: npt.DTypeLike) -> None:
        self.state = np.zeros((layers, batch, *shape), dtype=dtype)
        self._decay = decays(shape[0]).astype(dtype)[:, None, None]
        self._steps = np.zeros(batch)

    def reset(self, chosen: Mask | slice) -> None:
        self.state[:, chosen] = 0
        self._steps[chosen] = 0

    def count(self, rows: int) -> Array:
        steps = self._steps.copy()
        self._steps += 1
        return steps

    def retain(self, layer: int, q: Floats, k: Floats, v: Floats) -> Floats:
        state = self.state[layer]
        state *= self._decay
        state += k[..., :, None] * v[..., None, :]
        retained: Floats = (q[..., None, :] @ state)[..., 0, :]
        return retained


class ChunkedState:
    """The chunked form for one sequence, whose rows come in chunks of at most `chunk` steps. shape: (H, d_k, d_v)."""

    def __init__(self, layers: int, chunk: int, shape: tuple[int, int, int], dtype: npt.DTypeLike = np.float32) -> None:
        self._decays = ChunkDecays.of(decays(shape[0]), chunk, dtype)
        self.state = np.zeros((layers, *shape), dtype=dtype)
        self._steps = 0

    def reset(self) -> None:
        """Forget the sequence."""
        self.state[:] = 0
        self._steps = 0

    def count(self, rows: int) -> Array:
        self._steps += rows
        return np.arange(self._steps - rows, self._steps, dtype=np.float64)

    def retain(self, layer: int, q: Floats, k: Floats, v: Floats) -> Floats:
        q, k, v = (x.transpose(1, 0, 2) for x in (q, k, v))  # (H, rows, ...)
        rows, (within, before, after), state = q.shape[1], self._decays, self.state[layer]
        scores = q @ k.transpose(0, 2, 1)
        scores *= within[:, :rows, :rows]
        retained: Floats = scores @ v
        retained += (q * before[:, :rows]) @ state
        state *= before[:, rows - 1 : rows]
        state += (k * after[:, -rows:]).transpose(0, 2, 1) @ v
        return retained.transpose(1, 0, 2)
