"""Files of reference vectors: named arrays, packed so that weights take little space in the repository.

A file is xz-compressed: a line of JSON with name, dtype and shape of each array, then the bytes of all arrays of a
dtype together, first the lowest byte of every number, last the highest, which compresses better by a sixth.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read named arrays of a file."""
    head, _, content = lzma.decompress(path.read_bytes()).partition(b"\n")
    arrays, index = {}, json.loads(head)
    for kind in dict.fromkeys(kind for _, kind, _ in index):
        shapes = {name: shape for name, own, shape in index if own == kind}
        sizes = [int(np.prod(shape)) for shape in shapes.values()]
        own, content = np.split(np.frombuffer(content, np.uint8), [sum(sizes) * np.dtype(kind).itemsize])
        numbers = own.reshape(-1, sum(sizes)).T.copy().view(kind).ravel()
        parts = np.split(numbers, np.cumsum(sizes)[:-1])
        arrays |= {name: part.reshape(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}
    return {name: arrays[name] for name, _, _ in index}


def sampled(whole: np.ndarray, entries: np.ndarray) -> np.ndarray:
    """Return the entries of `whole` that a file holds: all, in the same shape, or a flat array of every n-th one."""
    if whole.shape == entries.shape:
        return whole
    return whole.ravel()[:: round(whole.size / entries.size)]


def check_gradients(network: torch.nn.Module, expected: Mapping[str, np.ndarray], share: float = 2e-5) -> None:
    """Compare the gradients of all parameters with those of a file, within a share of each tensor's largest entry."""
    for name, parameter in network.named_parameters():
        published = expected[name]
        assert parameter.grad is not None
        found, limit = sampled(parameter.grad.numpy(), published), share * np.abs(published).max()
        np.testing.assert_allclose(found, published, atol=limit, rtol=0, err_msg=name)
